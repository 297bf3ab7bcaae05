package waitgraph

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A long queue is looked through in no time, for each claim in it: also if each of them holds something.
func TestSurveyOfALongLine(t *testing.T) {
	v := NewReader(t.Context(), nil, nil)
	const n = 1000
	var q queue.Queue
	var of []*queue.Entry
	for i := range n {
		name := newID().Prefix(queue.LockWord) + fmt.Sprintf("%010d", i)
		held := fmt.Sprintf("/of/%d", i)
		q.Claims = append(q.Claims, queue.Claim{Number: int32(i), Mode: queue.Exclusive, Name: name})
		of = append(of, &queue.Entry{HoldID: queue.HoldIDOf("/long", name), Dir: "/long", Under: []string{held + "/it"}, Contender: queue.Contender{Token: int64(i)}})
		v.queues[held] = &queue.ReadQueue{}
	}
	v.queues["/long"] = queue.NewReadQueue(q, of)
	const most = 5 * time.Second
	took := time.Hour
	for i := 0; i < 3 && took > most; i++ { // the machine may be busy
		began := time.Now()
		if found, err := v.cycles(); len(found) > 0 || err != nil {
			t.Errorf("cycles: %d, %v", len(found), err)
		}
		took = time.Since(began)
	}
	if took > most {
		t.Errorf("that took %v", took)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	v.ctx = ended
	if _, err := v.cycles(); !errors.Is(err, context.Canceled) {
		t.Errorf("cycles with a context that has ended: %v, want its error", err)
	}
}

// A second look counts only what the first has seen, as it was.
func TestASecondLookCountsWhatWasThereBefore(t *testing.T) {
	s := zktest.New(t, zktest.Options{}).Session(t, "")
	for i, c := range []struct {
		what        string
		before      string // the claims there at the first look, each of one letter
		change      func(l line)
		want        string
		wantPermits int
	}{
		{"nothing has changed", "ab", func(line) {}, "ab", 2},
		{"one came", "b", func(l line) { l.create("a") }, "b", 2},
		{"one left", "ab", func(l line) { l.delete("a") }, "b", 2},
		{"one was written to", "ab", func(l line) { l.set("b") }, "a", 2},
		{"another number", "a", func(l line) { l.set("") }, "a", 0},
		{"another directory", "", func(l line) { l.delete(""); l.create(""); l.create("a") }, "", 0},
		{"a queue that was not there", "-", func(l line) { l.create(""); l.create("a") }, "", 0},
	} {
		l := line{t, s, fmt.Sprint("/l", i), newID()}
		if c.before != "-" {
			l.create("")
		}
		for _, name := range strings.Split(strings.Trim(c.before, "-"), "") {
			l.create(name)
		}
		first := NewReader(t.Context(), s, nil)
		if _, err := first.load(l.dir); err != nil {
			t.Fatal(err)
		}
		c.change(l)
		read, err := NewReader(t.Context(), s, first).load(l.dir)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, claim := range read.Queue.Claims {
			got += string('a' + rune(claim.Number))
		}
		if got != c.want || read.Queue.Permits != c.wantPermits {
			t.Errorf("%s: %q and %d permits count, want %q and %d", c.what, got, read.Queue.Permits, c.want, c.wantPermits)
		}
	}
}

// A line is the queue of a semaphore of two permits, whose claims have one letter each, all of one attempt; no letter is the directory.
type line struct {
	t   *testing.T
	s   *client.Session
	dir string
	id  queue.ID
}

func (l line) path(claim string) string {
	if claim == "" {
		return l.dir
	}
	return zk.Join(l.dir, fmt.Sprintf("%s%010d", l.id.Prefix(queue.PermitWord), claim[0]-'a'))
}

func (l line) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l line) create(claim string) {
	l.t.Helper()
	var data []byte
	if claim == "" {
		data = queue.EncodePermits(2)
	}
	_, err := l.s.Create(l.t.Context(), l.path(claim), data, zk.Persistent, nil)
	l.must(err)
}

func (l line) delete(claim string) {
	l.t.Helper()
	l.must(l.s.Delete(l.t.Context(), l.path(claim), zk.AnyVersion))
}

func (l line) set(claim string) {
	l.t.Helper()
	_, err := l.s.Set(l.t.Context(), l.path(claim), queue.EncodePermits(3), zk.AnyVersion)
	l.must(err)
}
