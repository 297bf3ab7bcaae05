package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestOpenQuotesTheServerList(t *testing.T) {
	_, err := Open(t.Context(), "a,,b", Options{})
	if want := `server list "a,,b": `; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v, want an error that says %s", err, want)
	}
}

// The counter of sequential znodes wraps around from 2147483647 to -2147483648. F01: CreateOnce looks for its own znode among the
// newest, and stops at the first that is older than the call.
func TestF01_NewestFirst(t *testing.T) {
	for _, newest := range [][]string{
		{"n-0000000010", "n-0000000009", "n-0000000001", "n-0000000000", "n--000000001", "n--000000012"},
		{"n--2147483647", "n--2147483648", "n-2147483647", "n-2147483646"},
		{"n--1999999999", "n--2000000000"},
	} {
		names := append(slices.Clone(newest), "n-", "n-12", "n-+000000001", "n-00000000x1", "n-9999999999", "m-0000000001", "")
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if got := newestFirst(names, "n-"); !slices.Equal(got, newest) {
			t.Errorf("of %q: %q, want %q", names, got, newest)
		}
	}
}

// F50: clients of one ensemble spread over it, and each tries every server in a round.
func TestF50_Rotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := map[string]int{}
		for range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			var tried []string
			_, err := Open(ctx, "a:1,b:1,c:1", Options{Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				tried = append(tried, address)
				if len(tried) == 6 {
					cancel()
				}
				return nil, errors.New("nothing listens")
			}})
			if err == nil || len(tried) < 6 {
				t.Fatalf("tried %v: %v", tried, err)
			}
			first[tried[0]]++
			if !slices.Equal(tried[:3], tried[3:6]) || tried[0] == tried[1] || tried[1] == tried[2] || tried[2] == tried[0] {
				t.Fatalf("two rounds tried %v", tried)
			}
		}
		for _, address := range []string{"a:1", "b:1", "c:1"} {
			if first[address] < 50 {
				t.Errorf("%s came first %d times of 300", address, first[address])
			}
		}
	})
}

// F50: pauses double up to the maximum, each at least half of what it could be; there is none before the first round.
func TestF50_Backoff(t *testing.T) {
	opt := Options{BackoffMin: 50 * time.Millisecond, BackoffMax: 2 * time.Second}
	if d := opt.backoff(0); d != 0 {
		t.Errorf("first pause %v, want none", d)
	}
	want := opt.BackoffMin
	for i := range 100 {
		if d := opt.backoff(i + 1); d > want || d < want/2-1 {
			t.Errorf("pause %d: %v, want between %v and %v", i+1, d, want/2, want)
		}
		want = min(2*want, opt.BackoffMax)
	}
}

func TestChrootNames(t *testing.T) {
	for _, tt := range []struct{ chroot, ours, servers string }{
		{"", "/", "/"}, {"", "/a", "/a"},
		{"/app", "/", "/app"}, {"/app", "/a", "/app/a"}, {"/app", "/a/b", "/app/a/b"},
	} {
		s := &Session{chroot: tt.chroot}
		if got := s.serverPath(tt.ours); got != tt.servers {
			t.Errorf("below %q: serverPath(%q) = %q, want %q", tt.chroot, tt.ours, got, tt.servers)
		}
		if got := s.clientPath(tt.servers); got != tt.ours {
			t.Errorf("below %q: clientPath(%q) = %q, want %q", tt.chroot, tt.servers, got, tt.ours)
		}
	}
	for _, path := range []string{"/", "/apple", "/apple/a", "/other"} { // not ours
		if got := (&Session{chroot: "/app"}).clientPath(path); got != path {
			t.Errorf("clientPath(%q) = %q, want it as it is", path, got)
		}
	}
}

// F49: paths are packed into frames of bounded size, each path once; one that is larger than a frame goes
// alone.
func TestF49_RearmPacks(t *testing.T) {
	const bytesMax = 1000
	w := watches{spots: map[watchKey]*watchSpot{}}
	want := map[string]int{}
	for i := range 500 {
		size := 1 + i%300
		if i == 499 {
			size = 3 * bytesMax
		}
		path := fmt.Sprintf("/%d-%s", i, strings.Repeat("x", size))
		key := watchKey{zk.WatchData - zk.WatchKind(i%2), path}
		w.spots[key] = &watchSpot{watches: []*Watch{{key: key, absent: i%4 == 0}}}
		want[path]++
	}
	w.spots[watchKey{zk.WatchData, "/unwatched"}] = &watchSpot{}
	calls := w.rearm(7, 42, bytesMax)
	for _, k := range calls {
		var req wire.SetWatchesRequest
		if err := wire.Unmarshal(k.frame[12:], &req); err != nil || req.RelativeZxid != 42 || k.op != wire.OpSetWatches {
			t.Fatalf("%v: %+v, %v", k.op, req, err)
		}
		bytes, paths := 0, 0
		for _, list := range [][]string{req.Data, req.Exist, req.Child} {
			for _, path := range list {
				want[path]--
				bytes += len(path)
				paths++
			}
		}
		if bytes > bytesMax && paths > 1 {
			t.Errorf("%d bytes of %d paths in a frame, limit %d", bytes, paths, bytesMax)
		}
	}
	for path, n := range want {
		if n != 0 {
			t.Errorf("%.20s: %d missing", path, n)
		}
	}
	for _, spot := range w.spots {
		for _, watch := range spot.watches {
			if watch.conn != 7 || !spot.armed {
				t.Fatalf("watch set on %d, armed %v", watch.conn, spot.armed)
			}
		}
	}
}

// What an event costs does not depend on how deep its path is: a server, or a client of an honest one, could otherwise hold up the
// session, and with it the end of every hold.
func TestEventsOfDeepPaths(t *testing.T) {
	s := &Session{}
	w := watches{s: s, persistent: map[watchKey][]*PersistentWatch{}}
	key := watchKey{zk.WatchPersistentRecursive, "/a"}
	st := &PersistentWatch{s: s, key: key, more: make(chan struct{})}
	w.persistent[key] = []*PersistentWatch{st}
	took := func(levels int) time.Duration {
		path := strings.Repeat("/a", levels)
		began := time.Now()
		for range 10 {
			w.firePersistent(zk.Event{Type: zk.NodeDataChanged, Path: path})
		}
		return time.Since(began)
	}
	var few, many time.Duration
	slow := true
	for n := 0; slow && n < 5; n++ { // the machine may be busy with something else during one of the two
		few, many = took(1000), took(500_000)
		slow = many > 100*few+100*time.Millisecond
	}
	if slow {
		t.Errorf("ten events of 1,000 levels took %v, and of 500,000 levels %v", few, many)
	}
	// Their paths have taken more room than the watch has: the last ones are left, behind a gap.
	if !st.events[0].Gap || st.bytes > watchBytesMax || len(st.events) > 5 {
		t.Errorf("%d events with paths of %d bytes, the first one %+v", len(st.events), st.bytes, st.events[0].Type)
	}
	for range st.events {
		if _, err := st.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if st.bytes != 0 {
		t.Errorf("%d bytes are counted when no event is left", st.bytes)
	}
	for _, other := range []string{"/ab", "/", "/b/a"} {
		w.firePersistent(zk.Event{Type: zk.NodeDataChanged, Path: other})
	}
	if len(st.events) > 0 {
		t.Errorf("an event of %s reached a watch on /a", st.events[0].Path)
	}
}
