package locksuite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Asking holders to give up.
var revokeTests = []test{
	{"Revoke_AnyKind", revokeAnyKind},
	{"Revoke_OneOfSeveral", revokeOneOfSeveral},
	{"Revoke_WhoSaysOtherThings", revokeOtherThings},
	{"Revoke_ByCurator", revokeByCurator},
	{"F10_RevokedWhileAway", f10RevokedWhileAway},
	{"Revoke_WhileWaiting", revokeWhileWaiting},
	{"Revoke_WhoHasGone", revokeGone},
	{"F01_RevokeReplyLost", f01RevokeLost},
	{"F33_RevokedBeforeDowngrade", f33Revoked},
}

// A lockKind is one of the ways to hold the world's lock.
type lockKind struct {
	name string
	lock func(c *Client) func(context.Context) (*lock.Hold, error)
}

var lockKinds = []lockKind{
	{"mutex", func(c *Client) func(context.Context) (*lock.Hold, error) { return c.Mutex(lock.Options{}).Lock }},
	{"writer", func(c *Client) func(context.Context) (*lock.Hold, error) { return c.RWMutex().Lock }},
	{"reader", func(c *Client) func(context.Context) (*lock.Hold, error) { return c.RWMutex().RLock }},
	{"permit", func(c *Client) func(context.Context) (*lock.Hold, error) { return c.Semaphore(2).Acquire }},
	{"unfair", func(c *Client) func(context.Context) (*lock.Hold, error) { return c.Unfair().Lock }},
}

// eachKind runs f once for each kind of lock, at a path of its own.
func (w *World) eachKind(f func(name string, k lockKind)) {
	dir := w.dir
	for _, k := range lockKinds {
		w.dir = fmt.Sprintf("%s-%s", dir, k.name)
		f(k.name, k)
	}
	w.dir = dir
}

// contender returns how the one with that label stands in the world's lock.
func (w *World) contender(label string) lock.Contender {
	w.t.Helper()
	snap, err := inspect.Look(w.Context(), w.fresh(), w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range snap.Contenders {
		if c.Owner.Label == label {
			return c
		}
	}
	w.t.Fatalf("no contender %s in %+v", label, snap)
	return lock.Contender{}
}

// revoke asks a contender to give up.
func (w *World) revoke(c lock.Contender) {
	w.t.Helper()
	if asked, err := inspect.Revoke(w.Context(), w.fresh(), c); !asked || err != nil {
		w.t.Fatalf("Revoke = %v, %v", asked, err)
	}
}

// revoked waits until the hold's owner has been told to give up.
func (w *World) revoked(what string, h *lock.Hold) {
	w.t.Helper()
	select {
	case <-h.Revoked():
	case <-h.Done():
		w.t.Fatalf("%s: the hold is over: %v", what, h.Cause())
	case <-time.After(patience):
		w.t.Fatalf("%s: the holder does not hear that it is asked to give up", what)
	}
}

// A holder of any kind hears the request, goes on holding, and is still shown with its owner.
func revokeAnyKind(w *World, t *testing.T) {
	w.eachKind(func(name string, k lockKind) {
		a := w.Client("a")
		h := must(w, k.lock(a))
		time.Sleep(w.moment())
		select {
		case <-h.Revoked():
			t.Errorf("%s: revoked though not asked", name)
		default:
		}
		before := w.contender("a")
		if before.Revoked || !before.Held {
			t.Errorf("%s: before: %+v", name, before)
		}
		for range 2 {
			w.revoke(before)
		}
		w.revoked(name, h)
		time.Sleep(w.moment())
		after := w.contender("a")
		if h.Cause() != nil || !after.Revoked || !after.Held || after.Owner != before.Owner {
			t.Errorf("%s: the hold says %v, and is shown as %+v, before as %+v", name, h.Cause(), after, before)
		}
		if stat, _, err := w.fresh().Exists(w.Context(), h.Node()); err != nil || stat.Version != 1 {
			t.Errorf("%s: the node was written %d times (%v), want once", name, stat.Version, err)
		}
		w.MustRelease(h)
		w.Clean()
	})
}

// Curator's Revoker writes over what the node says. The holder hears that too, and writes its owner again.
func revokeByCurator(w *World, t *testing.T) {
	w.eachKind(func(name string, k lockKind) {
		a := w.Client("a")
		h := must(w, k.lock(a))
		before := w.contender("a")
		if _, err := w.admin.Set(w.Context(), h.Node(), []byte(curatorsWord), -1); err != nil {
			t.Fatal(err)
		}
		w.revoked(name, h)
		w.Within(patience, "the holder is known again", func() bool {
			line, err := inspect.Contenders(w.Context(), w.fresh(), w.dir)
			if err != nil || len(line) != 1 || !line[0].Revoked {
				t.Fatalf("%s: Inspect = %+v, %v", name, line, err)
			}
			return line[0].Owner == before.Owner
		})
		w.MustRelease(h)
		w.nodeGone(h.Node())
	})
}

// nodeGone checks that a node is gone.
func (w *World) nodeGone(node string) {
	w.t.Helper()
	if ok, err := w.Exists(node); ok || err != nil {
		w.t.Errorf("%s is still there (%v)", node, err)
	}
}

// A request that is made while the holder is cut off is heard when it is back.
func f10RevokedWhileAway(w *World, t *testing.T) {
	w.eachKind(func(name string, k lockKind) {
		for _, watched := range []bool{false, true} {
			a := w.Client("a")
			h := must(w, k.lock(a))
			if watched {
				time.Sleep(w.moment())
			}
			a.Unreachable()
			w.revoke(w.contender("a"))
			a.Reachable()
			w.revoked(name, h)
			w.MustRelease(h)
			a.Close(w.Context())
		}
	})
}

// A waiter is asked to give up what it does not have yet. It knows when it has it, and what its claim says is written again if Curator's
// Revoker has written over it.
func revokeWhileWaiting(w *World, t *testing.T) {
	for _, way := range []string{"here", "away", "curator"} {
		a, b := w.Client("a"), w.Client("b")
		held := must(w, a.Mutex(lock.Options{}).Lock)
		g := ask(w, b.Mutex(lock.Options{}).Lock)
		w.WaitQueue(2)
		w.Quiet(a, b)
		waiter := w.contender("b")
		if waiter.Held || waiter.Place != 1 {
			t.Errorf("the waiter is shown as %+v", waiter)
		}
		switch way {
		case "here":
			w.revoke(waiter)
		case "away":
			b.Unreachable()
			w.revoke(waiter)
			b.Reachable()
		case "curator":
			if _, err := w.admin.Set(w.Context(), waiter.Node, []byte(curatorsWord), -1); err != nil {
				t.Fatal(err)
			}
			w.Within(patience, "the waiter is known again", func() bool {
				line, err := inspect.Contenders(w.Context(), w.fresh(), w.dir)
				return err == nil && len(line) == 2 && line[1].Revoked && line[1].Owner == waiter.Owner
			})
		}
		w.Quiet(a, b)
		if !g.Pending() {
			t.Error("a waiter that is asked to give up has an outcome")
		}
		w.MustRelease(held)
		h := g.Granted()
		w.revoked("the waiter", h)
		w.MustRelease(h)
	}
}

// A contender that has left is not asked, and neither is one that came after it.
func revokeGone(w *World, t *testing.T) {
	w.eachKind(func(name string, k lockKind) {
		a, b := w.Client("a"), w.Client("b")
		h := must(w, k.lock(a))
		gone := w.contender("a")
		w.MustRelease(h)
		next := must(w, k.lock(b))
		if asked, err := inspect.Revoke(w.Context(), w.fresh(), gone); asked || err != nil {
			t.Errorf("%s: Revoke of one that has left = %v, %v, want false", name, asked, err)
		}
		if w.contender("b").Revoked {
			t.Errorf("%s: the next one was asked in its place", name)
		}
		w.MustRelease(next)
	})
}

// The answer to the request is lost, or the request is. It is made once, and known to have been.
func f01RevokeLost(w *World, t *testing.T) {
	for _, applied := range []bool{false, true} {
		a, b := w.Client("a"), w.Client("b")
		h := must(w, a.Mutex(lock.Options{}).Lock)
		c := w.contender("a")
		m := faultproxy.Match{Ops: []wire.Op{wire.OpSetData}, Path: h.Node()}
		b.Cut(m, applied)
		if asked, err := inspect.Revoke(w.Context(), b.Session, c); !asked || err != nil {
			t.Errorf("Revoke with a lost connection, applied %v = %v, %v", applied, asked, err)
		}
		w.revoked("with a lost connection", h)
		if stat, _, err := w.fresh().Exists(w.Context(), h.Node()); err != nil || stat.Version != 1 {
			t.Errorf("the node was written %d times (%v)", stat.Version, err)
		}
		w.MustRelease(h)
	}
	if asked, err := inspect.Revoke(w.Context(), w.fresh(), lock.Contender{Node: zk.Join(w.dir, "nobody")}); asked || err != nil {
		t.Errorf("Revoke of no contender = %v, %v", asked, err)
	}
}

// A writer that becomes a reader takes the request along, also one that it has not heard yet.
func f33Revoked(w *World, t *testing.T) {
	for _, heard := range []bool{false, true} {
		a := w.Client("a")
		h := must(w, a.RWMutex().Lock)
		w.revoke(w.contender("a"))
		if heard {
			w.revoked("the writer", h)
		}
		if err := h.Downgrade(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.revoked("the reader", h)
		if c := w.contender("a"); !c.Revoked || !c.Shared || !c.Held {
			t.Errorf("heard %v: the reader is shown as %+v", heard, c)
		}
		w.MustRelease(h)
	}
}

// Several locks are held at once, and one of them is asked for: the whole hears of it, and which one, and goes on.
func revokeOneOfSeveral(w *World, t *testing.T) {
	paths := w.beside(3)
	a := w.Client("a")
	all := w.AllOf(a.Mutexes(paths, lock.Options{})...)
	for i, path := range paths {
		for _, early := range []bool{true, false} { // whether it is listened for when it is asked for
			h := must(w, all.Lock)
			if early {
				select {
				case <-h.Revoked():
					t.Fatal("asked for before any client did")
				case <-time.After(w.moment()):
				}
			}
			w.revoke(lock.Contender{Node: h.Of(path)[0].Node()})
			select {
			case <-h.Revoked():
			case <-time.After(patience):
				t.Fatalf("the holder of all does not hear that it is asked for %s", path)
			}
			for j, p := range paths {
				select {
				case <-h.Of(p)[0].Revoked():
					if j != i {
						t.Errorf("asked for %s, told of %s", path, p)
					}
				default:
					if j == i {
						t.Errorf("not told that it is %s", p)
					}
				}
			}
			if err := h.Cause(); err != nil {
				t.Errorf("the whole is over: %v", err)
			}
			w.MustRelease(h)
		}
	}
	h := must(w, all.Lock)
	never := h.Revoked()
	w.MustRelease(h)
	select {
	case <-never:
		t.Error("a release counts as a request")
	case <-time.After(w.moment()):
	}
	w.CleanAt(paths)
}

// The node says what the program says, which nothing can be added to: the holder hears the request, and what its node
// says stays as it is from then on.
func revokeOtherThings(w *World, t *testing.T) {
	a := w.Client("a")
	h := must(w, a.Mutex(lock.Options{Data: []byte("host-1")}).Lock)
	w.revoke(lock.Contender{Node: h.Node()})
	w.revoked("whose node says other things", h)
	time.Sleep(w.moment())
	data, stat, err := w.fresh().Get(w.Context(), h.Node())
	if err != nil || string(data) != curatorsWord || stat.Version != 1 {
		t.Errorf("the node says %q in version %d (%v), want %q in version 1", data, stat.Version, err, curatorsWord)
	}
	w.MustRelease(h)
}
