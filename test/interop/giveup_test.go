package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
)

// giveUpAfter is how long one that gives up stays in the queue: long enough for another to come behind it on a busy machine.
const giveUpAfter = 3 * time.Second

// Each make in turn gives up in the middle of the queue, which closes behind it (F25): a contender that stood there is
// let in when the holder leaves, and the one that gave up can come back.
func TestMixedWhoGivesUp(t *testing.T) {
	t.Parallel()
	rw := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.KazooCurator}
	locks := []struct {
		makes                 []peer.Kind
		holder, quitter, rest peer.As
	}{
		{rw, peer.Mutex, peer.Mutex, peer.Mutex}, // go-zookeeper's waits for ever
		{rw, peer.Write, peer.Read, peer.Write},
		{rw, peer.Read, peer.Write, peer.Read},
		{rw[:2], peer.Permit(1), peer.Permit(1), peer.Permit(1)},
	}
	onBothServers(t, func(t *testing.T, addr string) {
		for i, c := range locks {
			l := newTestLock(t, fmt.Sprint("/give-up-", i), addr, addr)
			dirs := []string{l.path}
			if c.rest == peer.Permit(1) {
				l.dir = l.path + "/locks"
				dirs = []string{l.dir, l.path + "/leases"}
			}
			peers := l.startAll(c.makes...)
			for i, quitter := range peers {
				holder, next := peers[(i+1)%len(peers)], l.start(peer.Lockkeeper)
				holder.Take(l.path, c.holder)
				before := len(l.children(l.dir))
				quitter.Send("try %s %d %s", l.path, giveUpAfter.Milliseconds(), c.quitter)
				l.await(before + 1)
				l.joinAs(next, c.rest)
				quitter.Expect("busy")
				if c.holder != peer.Read { // else it has been let in beside the holder
					next.Quiet(settled)
					holder.Unlock()
					next.ExpectHeld()
				} else {
					next.ExpectHeld()
					holder.Unlock()
				}
				next.Unlock()
				quitter.Take(l.path, c.quitter)
				quitter.Unlock()
				next.Quit()
			}
			l.empty(dirs...)
		}
	})
}

// Curator's LeaderSelector leads while it holds a mutex, and its InterProcessSemaphoreMutex is a semaphore of
// one permit: they share locks with ours.
func TestCuratorsOtherLocks(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	for _, c := range []struct{ theirs, ours peer.As }{
		{peer.Selector, peer.Mutex},
		{peer.SemaphoreMutex, peer.Permit(1)},
	} {
		t.Run(string(c.theirs), func(t *testing.T) {
			l := newTestLock(t, "/other-"+string(c.theirs), srv.Addr(), srv.Addr())
			dirs := []string{l.path}
			if c.theirs == peer.SemaphoreMutex {
				l.dir = l.path + "/locks"
				dirs = []string{l.dir, l.path + "/leases"}
			}
			peers := l.startAll(peer.Curator, peer.Lockkeeper, peer.Curator)
			peers[0].Take(l.path, c.theirs)
			l.joinAs(peers[1], c.ours)
			l.joinAs(peers[2], c.theirs)
			peers[1].Quiet(settled)
			peers[0].Unlock()
			peers[1].ExpectHeld()
			peers[2].Quiet(settled)
			peers[1].Unlock()
			peers[2].ExpectHeld()
			peers[2].Unlock()
			l.empty(dirs...)
		})
	}
}
