package locksuite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Group A of the atlas: acquiring while connections break.
var acquireTests = []test{
	{"F01_CreateAppliedReplyLost", f01ReplyLost},
	{"F01_ReplyLostAndCallerGone", f01CallerGone},
	{"F02_StaleListing", f02StaleListing},
	{"F02_Duplicate", f02Duplicate},
	{"F03_NodeOfAnotherSession", f03ForeignNode},
	{"F03_NewSessionBehindTheOld", f03NewSession},
	{"F04_CancelDuringCreate", f04CancelDuringCreate},
	{"F04_F26_CancelAnywhere", f04CancelAnywhere},
	{"F05_BreaksKeepThePlace", f05KeepsPlace},
	{"F06_ExpiredBeforeListing", f06Expired},
	{"F06_DeletedBeforeListing", f06Deleted},
	{"F06_DeletedWhileWaiting", f06DeletedWhileWaiting},
	{"F06_DeletedBehindALateListing", f06DeletedBehindALateListing},
	{"F06_UnfairDeletedBehindALateCreate", f06UnfairDeletedBehindALateCreate},
	{"F07_DirectoryVanishes", f07DirectoryVanishes},
	{"F07_ReadOnlyAncestors", f07ReadOnlyAncestors},
	{"F07_SamePathAtOnce", f07SamePathAtOnce},
	{"F08_Bounded", f08Bounded},
}

// joins matches the create of a node in the queue.
func (w *World) joins() faultproxy.Match {
	return faultproxy.Match{Ops: faultproxy.Creates(), Prefix: w.dir + "/"}
}

// lists matches a listing of the lock directory.
func (w *World) lists() faultproxy.Match {
	return faultproxy.Match{Ops: faultproxy.Lists(), Path: w.dir}
}

// The server made the node and the answer was lost, and so were those of the first listings that look
// for it. There is one node in the end, and it is the attempt's.
func f01ReplyLost(w *World, t *testing.T) {
	for lost := range 6 {
		a := w.Client("a")
		w.MustRelease(must(w, a.Mutex(lock.Options{}).Lock)) // the directory is there
		a.Proxy.CutAfter(w.joins())
		if lost > 0 {
			m := w.lists()
			m.Times = lost
			m.Skip = 1 // the one that went with the create
			a.Proxy.CutBefore(m)
		}
		mark := a.Proxy.Mark()
		h := must(w, a.Mutex(lock.Options{}).Lock)
		if n := len(a.Proxy.Since(mark).Asked(wire.OpCreate2)); n != 1 {
			t.Errorf("with %d listings lost: %d creates were sent, want 1", lost, n)
		}
		if line := w.Queue(); len(line) != 1 {
			t.Errorf("with %d listings lost: %d nodes in the queue, want 1: %v", lost, len(line), line)
		}
		w.MustRelease(h)
		w.Clean()
	}
}

// As before, but the caller gave up during the outage. The node has no owner, so it must go.
func f01CallerGone(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	w.MustRelease(must(w, a.Mutex(lock.Options{}).Lock))
	ctx, cancel := context.WithCancel(w.Context())
	a.CutOff(w.joins(), true, cancel)
	_, err := a.Mutex(lock.Options{}).Lock(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Lock = %v, want the context's error", err)
	}
	if n := len(w.Queue()); n != 1 {
		t.Fatalf("%d nodes in the queue during the outage, want the orphan", n)
	}
	a.Proxy.Refuse(false)
	g := ask(w, b.Mutex(lock.Options{}).Lock)
	healed := time.Now()
	h := g.Granted()
	if d := g.at.Sub(healed); d > time.Second+w.slack() {
		t.Errorf("the next contender was granted %v after the network was healthy", d)
	}
	w.MustRelease(h)
	w.Clean()
}

// The node is deleted while the answers that it is made and that it is first are on their way for longer than a lease lasts.
// The session proves itself right behind them. No hold begins: the listing is asked again.
func f06DeletedBehindALateListing(w *World, t *testing.T) {
	a := w.Client("a")
	w.MustRelease(must(w, a.Mutex(lock.Options{}).Lock)) // the directory is there
	late := w.Timeout * 9 / 20
	a.Proxy.Hold(w.joins(), late)
	a.Proxy.After(w.lists(), func(faultproxy.Request, faultproxy.Reply) {
		for _, name := range w.QueueAt(w.dir) {
			w.Delete(zk.Join(w.dir, name))
		}
		time.Sleep(late)
	})
	h, err := a.Mutex(lock.Options{}).Lock(w.Context())
	if err == nil {
		w.MustRelease(h)
		t.Fatal("a hold began on a node that had been deleted")
	}
	if !errors.Is(err, lock.ErrPlaceLost) {
		t.Errorf("%v, want %v", err, lock.ErrPlaceLost)
	}
}

// As before with the unfair lock, whose attempt knows from the answer to its create alone that the node is there. The attempt
// looks again: it makes the node anew, or finds the one that it has made.
func f06UnfairDeletedBehindALateCreate(w *World, t *testing.T) {
	for _, deletes := range []bool{true, false} {
		a := w.Client(fmt.Sprint("deletes ", deletes))
		w.MustRelease(must(w, a.Unfair().Lock)) // the directory is there
		late := w.Timeout * 9 / 20
		a.Proxy.Hold(faultproxy.Match{Ops: faultproxy.Lists(), Path: "/"}, late)
		ahead := a.Session.Pipeline()
		ahead.Children("/")
		ahead.Send(w.Context())
		var made atomic.Bool // the attempt may end while the answer waits
		var creates atomic.Int32
		a.Proxy.After(faultproxy.Match{Ops: faultproxy.Creates(), Path: w.dir, Times: faultproxy.Always}, func(faultproxy.Request, faultproxy.Reply) {
			if creates.Add(1) > 1 {
				return
			}
			if deletes {
				w.Delete(w.dir)
			}
			made.Store(true)
			time.Sleep(late)
		})
		h := must(w, a.Unfair().Lock)
		if !made.Load() {
			t.Fatal("the answer was not late: the test proves nothing")
		}
		if n := creates.Load(); n != 2 {
			t.Errorf("deleted %v: %d creates, want 2", deletes, n)
		}
		stat, there, err := a.Session.Exists(w.Context(), w.dir)
		if !there || stat.Czxid != h.Token() {
			t.Errorf("deleted %v: a hold with token 0x%x began on the node with 0x%x, there %v (%v)", deletes, h.Token(), stat.Czxid, there, err)
		}
		w.MustRelease(h)
	}
}
