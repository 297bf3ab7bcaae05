package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
)

// What Curator holds and waits for is seen for what it is, from the outside, and every change of it is told.
func TestCuratorsLocksAreSeen(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, addr string) {
		l := newTestLock(t, "/", addr, addr)
		peers := l.startAll(peer.Curator, peer.Curator, peer.Curator)
		for _, c := range []struct {
			kind  lock.Kind
			path  string
			as    [3]peer.As
			alone int // how many hold it while all three want it
			after int // and once the first of them has left
		}{
			{inspect.KindMutex, "/mutex", [3]peer.As{peer.Mutex, peer.Mutex, peer.Mutex}, 1, 1},
			{inspect.KindReadWrite, "/rw", [3]peer.As{peer.Write, peer.Read, peer.Read}, 1, 2},
			{inspect.KindCuratorSemaphore, "/semaphore", [3]peer.As{peer.Permit(2), peer.Permit(2), peer.Permit(2)}, 2, 2},
			{inspect.KindElection, "/leader", [3]peer.As{peer.Leader, peer.Leader, peer.Leader}, 1, 1},
		} {
			shown := watchFrom(t, open(t, addr, client.Options{}), c.path)
			for i, p := range peers {
				if i < c.alone {
					p.Take(c.path, c.as[i])
				} else {
					p.Ask(c.path, c.as[i])
				}
				shown.wants(fmt.Sprintf("%s: %d held, %d waiting", c.kind, min(i+1, c.alone), max(0, i+1-c.alone)))
			}
			peers[0].Unlock()
			shown.wants(fmt.Sprintf("%s: %d held, %d waiting", c.kind, c.after, 2-c.after))
			for i, p := range peers[1:] {
				if i+1 >= c.alone {
					p.ExpectHeld()
				}
				p.Unlock()
			}
		}
	})
}

// A watcher is told of a lock.
type watcher struct {
	t     *testing.T
	shown chan string
}

func watchFrom(t *testing.T, s *client.Session, path string) *watcher {
	w := &watcher{t: t, shown: make(chan string, 10_000)}
	go func() { // ends with the session
		for snap, err := range inspect.Watch(t.Context(), s, path) {
			if err == nil {
				w.shown <- fmt.Sprintf("%s: %d held, %d waiting", snap.Kind, len(snap.Holders()), len(snap.Waiters()))
			}
		}
	}()
	return w
}

// wants waits until the lock is shown so, and stays so for a moment.
func (w *watcher) wants(want string) {
	w.t.Helper()
	last := ""
	for end := time.After(patience); ; {
		calm := time.After(300 * time.Millisecond)
		select {
		case last = <-w.shown:
			continue
		case <-calm:
			if last == want {
				return
			}
		case <-end:
			w.t.Fatalf("the lock is shown as %q, want %q", last, want)
		}
	}
}
