package lock

import (
	"os"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

func TestOptionsOwner(t *testing.T) {
	for _, c := range []struct {
		opt Options
		pid int
	}{
		{Options{Label: "nightly"}, os.Getpid()},
		{Options{Label: "nightly", pid: 4711}, 4711},
	} {
		o := c.opt.Owner()
		if o.PID != c.pid || o.Label != "nightly" || o.Program == "" || strings.ContainsAny(o.Program, `/\`) {
			t.Errorf("owner of %+v = %+v, want process %d", c.opt, o, c.pid)
		}
	}
}

func TestNodeData(t *testing.T) {
	opt := Options{Label: `l "q"}`, pid: 4711}
	e := newFairLock(nil, "/l", opt, &queue.MutexRules)
	if got, want := string(e.nodeData(nil)), string(queue.Record{Owner: opt.Owner()}.Encode()); got != want {
		t.Errorf("nodeData of nothing = %s, want %s", got, want)
	}
	for _, r := range []queue.Record{{}, {Passing: true}, {ID: "1f"}, {Under: []string{"/a", "/b"}, Yields: true}} {
		data := e.nodeData(&r)
		got := queue.ParseRecord(data)
		r.Owner = opt.Owner()
		if want := string(r.Encode()); string(got.Encode()) != want {
			t.Errorf("nodeData = %s, want what %s says", data, want)
		}
	}
	opt.Data = []byte("127.0.0.1")
	if got := newFairLock(nil, "/l", opt, &queue.MutexRules).nodeData(&queue.Record{Passing: true}); string(got) != "127.0.0.1" {
		t.Errorf("nodeData with Options.Data = %s", got)
	}
}
