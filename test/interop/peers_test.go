package interop

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
	"github.com/lockkeeper/lockkeeper/test/interop/register"
	"github.com/lockkeeper/lockkeeper/zk"
)

// openRegister starts a register that fails the test if holders overlap or tokens shrink.
func openRegister(t *testing.T) *register.Register {
	t.Helper()
	r, err := register.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		for _, f := range r.Faults() {
			t.Error(f)
		}
	})
	return r
}

// names are the forms of the znodes with which the makes of lock clients stand in the queue.
var names = map[peer.Kind]*regexp.Regexp{
	peer.Lockkeeper:   regexp.MustCompile(`^_c_[0-9a-f]{32}-lock-[0-9]{10}$`),
	peer.Curator:      regexp.MustCompile(`^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-[0-9]{10}$`),
	peer.GoZookeeper:  regexp.MustCompile(`^_c_[0-9a-f]{32}-lock-[0-9]{10}$`),
	peer.Kazoo:        regexp.MustCompile(`^[0-9a-f]{32}__lock__[0-9]{10}$`),
	peer.KazooCurator: regexp.MustCompile(`^[0-9a-f]{32}-lock-[0-9]{10}$`),
}

func TestZnodeNamesOfThePeers(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{})
	reg := openRegister(t)
	look := connect(t, srv.Addr(), watcherTimeout, nil)
	for kind, form := range names {
		path := "/names-" + string(kind)
		p := peer.Start(t, kind, peer.Config{Servers: srv.Addr(), Timeout: patience, Name: string(kind), Register: reg.Addr()})
		p.Lock(path)
		got := look.children(path)
		t.Logf("%s: %q", kind, got)
		if len(got) != 1 || !form.MatchString(got[0]) {
			t.Errorf("%s holds with %q, want one that matches %v", kind, got, form)
		}
		p.Unlock()
		p.Quit()
	}
}

// Which clients heed each other: one holds, the other waits in the queue, or does not. Two makes that do not heed each
// other both ways may not share a lock, whatever we do.
func TestWhichPeersHeedWhom(t *testing.T) {
	t.Parallel()
	all := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.GoZookeeper, peer.Kazoo, peer.KazooPatterns, peer.KazooCurator}
	curatorNames := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.GoZookeeper, peer.KazooCurator}
	kazooNames := []peer.Kind{peer.Kazoo, peer.KazooPatterns}
	heeded := map[peer.Kind][]peer.Kind{ // by waiter
		peer.Lockkeeper:    all,
		peer.Curator:       curatorNames,
		peer.GoZookeeper:   all,
		peer.Kazoo:         kazooNames,
		peer.KazooPatterns: all,
		peer.KazooCurator:  all,
	}
	h := newHeeding(t, all...)
	for _, waiter := range all {
		for _, holder := range all {
			h.check(holder, peer.Mutex, waiter, peer.Mutex, slices.Contains(heeded[waiter], holder))
		}
	}
}

// The same of read/write locks: go-zookeeper has none.
func TestWhichReadersAndWritersHeedWhom(t *testing.T) {
	t.Parallel()
	all := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.Kazoo, peer.KazooPatterns, peer.KazooCurator}
	curatorNames := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.KazooCurator}
	kazooNames := []peer.Kind{peer.Kazoo, peer.KazooPatterns}
	heeded := map[peer.Kind][]peer.Kind{ // by waiter
		peer.Lockkeeper:    all,
		peer.Curator:       curatorNames,
		peer.Kazoo:         kazooNames,
		peer.KazooPatterns: all,
		peer.KazooCurator:  all,
	}
	h := newHeeding(t, all...)
	for _, waiter := range all {
		for _, holder := range all {
			want := slices.Contains(heeded[waiter], holder)
			h.check(holder, peer.Write, waiter, peer.Write, want)
			h.check(holder, peer.Read, waiter, peer.Write, want)
			h.check(holder, peer.Write, waiter, peer.Read, want)
			h.check(holder, peer.Read, waiter, peer.Read, false)
		}
	}
}

// A heeding is two peers of each make, one to hold locks and one to want them.
type heeding struct {
	t                *testing.T
	reg              *register.Register // whose judgement is what the test wants to know
	look             *raw
	holders, waiters map[peer.Kind]*peer.Peer
	checked          int
}

func newHeeding(t *testing.T, kinds ...peer.Kind) *heeding {
	t.Helper()
	srv := apache.Start(t, apache.Options{})
	reg, err := register.Open()
	must(t, err)
	t.Cleanup(reg.Close)
	h := &heeding{t: t, reg: reg, holders: map[peer.Kind]*peer.Peer{}, waiters: map[peer.Kind]*peer.Peer{}}
	for _, k := range kinds {
		c := peer.Config{Servers: srv.Addr(), Timeout: 10 * time.Second, Register: reg.Addr()}
		c.Name = "holder-" + string(k)
		h.holders[k] = peer.Start(t, k, c)
		c.Name = "waiter-" + string(k)
		h.waiters[k] = peer.Start(t, k, c)
	}
	h.look = connect(t, srv.Addr(), watcherTimeout, nil) // it has no heartbeat, and peers take long to start on a busy machine
	return h
}

// heedWindow is how long a waiter must have been in the queue, without getting in, to be said to wait;
// heedlessWindow is how long one that is expected to get in may take for it on a busy machine.
const (
	heedWindow     = 200 * time.Millisecond
	heedlessWindow = 10 * time.Second
)

// check lets one hold a lock and the other want it, and compares whether it waits.
func (h *heeding) check(holder peer.Kind, held peer.As, waiter peer.Kind, wanted peer.As, want bool) {
	h.t.Helper()
	h.checked++
	path := fmt.Sprint("/heed-", h.checked)
	hold, wait := h.holders[holder], h.waiters[waiter]
	hold.Take(path, held)
	wait.Ask(path, wanted)
	for end := time.Now().Add(patience); len(h.look.children(path)) < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("%s (%s) does not join the queue of %s (%s)", waiter, wanted, holder, held)
		}
	}
	window := heedWindow
	if !want {
		window = heedlessWindow
	}
	waits := h.waits("waiter-"+string(waiter), window)
	if waits != want {
		h.t.Errorf("%s (%s) waits for %s (%s): %v, want %v", waiter, wanted, holder, held, waits, want)
	}
	hold.Unlock()
	wait.ExpectHeld()
	wait.Unlock()
}

// waits reports whether the one called name stays outside for the window.
func (h *heeding) waits(name string, window time.Duration) bool {
	deadline := time.After(window)
	for {
		names, changed := h.reg.Inside()
		if slices.Contains(names, name) {
			return false
		}
		select {
		case <-changed:
		case <-deadline:
			return true
		}
	}
}

// kazoo's own read lock waits for the last writer in the queue, also for one behind it, which waits for it:
// that is why it cannot take part, with us or without us, and needs the few lines that KazooCurator has.
// Neither is let in before the other gives up.
func TestKazoosReadLockWaitsForWritersBehindIt(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	for _, writers := range []peer.Kind{peer.Kazoo, peer.Lockkeeper} {
		t.Run("writers of "+string(writers), func(t *testing.T) {
			l := newTestLock(t, "/kazoo-reader-"+string(writers), srv.Addr(), srv.Addr())
			reader := peer.KazooPatterns
			if writers == peer.Kazoo {
				reader = peer.Kazoo
			}
			l.timeout = crashTimeout
			peers := l.startAll(writers, reader, writers)
			w1, r, w2 := peers[0], peers[1], peers[2]
			w1.Take(l.path, peer.Write)
			l.joinAs(r, peer.Read)
			l.joinAs(w2, peer.Write)
			w1.Unlock()
			r.Quiet(10 * settled)
			w2.Quiet(10 * settled)
			w2.Kill()
			r.ExpectHeld()
			r.Unlock()
		})
	}
}

// F06: the znode of a waiting reader of kazoo's with Curator's names is deleted. It joins the queue again, and does not take the lock
// without one.
func TestF06_KazoosReaderJoinsAgain(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	l := newTestLock(t, "/kazoo-deleted", srv.Addr(), srv.Addr())
	s := open(t, srv.Addr(), client.Options{})
	peers := l.startAll(peer.Lockkeeper, peer.KazooCurator)
	writer, reader := peers[0], peers[1]
	writer.Take(l.path, peer.Write)
	l.joinAs(reader, peer.Read)
	for _, name := range l.children(l.path) {
		if strings.Contains(name, "-__READ__") {
			must(t, s.Delete(t.Context(), zk.Join(l.path, name), zk.AnyVersion))
		}
	}
	writer.Unlock()
	reader.ExpectHeld()
	if names := l.children(l.path); len(names) != 1 {
		t.Errorf("the reader holds the lock with the znodes %q", names)
	}
	reader.Unlock()
}
