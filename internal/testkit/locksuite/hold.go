package locksuite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Group C of the atlas: holding, and the loss of sessions.
var holdTests = []test{
	{"F16_LossIsTold", f16LossIsTold},
	{"F17_LostBeforeOthersAreGranted", f17Phases},
	{"F17_CutOffFollower", f17CutOffFollower},
	{"F18_Suspended", f18Suspended},
	{"F18_NothingBeginsAfterASuspension", f18NothingBegins},
	{"F18_AnsweredTooLate", f18AnsweredTooLate},
	{"F18_GrantedAfterASleep", f18GrantedAfterASleep},
	{"F19_LateWriteIsRefused", f19LateWrite},
	{"F19_TokensGrow", f19TokensGrow},
	{"F20_ResumedAsAnother", f20ResumedAsAnother},
	{"F21_ShortFlap", f21ShortFlap},
	{"F21_LostWithTheSessionAlive", f21LostAlive},
	{"F22_AcquireContextEnds", f22AcquireContextEnds},
	{"F22_DoPanics", f22DoPanics},
	{"F22_ManyLocks", f22ManyLocks},
	{"IdleHoldIsCheap", idleHold},
	{"HoldWithoutReadPermission", unreadableHold},
}

// Each way to lose a lock is told once, with its cause and in time.
func f16LossIsTold(w *World, t *testing.T) {
	for _, c := range []struct {
		name   string
		cause  error
		within time.Duration
		lose   func(a *Client, h *lock.Hold)
	}{
		{"expired", zk.ErrSessionExpired, time.Second, func(a *Client, _ *lock.Hold) { w.Expire(a.Session) }},
		{"deleted", lock.ErrNodeDeleted, time.Second, func(_ *Client, h *lock.Hold) { w.Delete(h.Node()) }},
		{"silence", lock.ErrDeadline, w.Timeout * 2 / 3, func(a *Client, _ *lock.Hold) { a.Blackhole() }},
		{"closed", zk.ErrClosed, time.Second, func(a *Client, _ *lock.Hold) { a.Close(w.Context()) }},
	} {
		a := w.Client("a")
		h := must(w, a.Mutex(lock.Options{}).Lock)
		time.Sleep(w.moment())
		if h.Cause() != nil || h.Remaining() <= 0 || h.Context().Err() != nil {
			t.Fatalf("%s: the hold is over before it was lost: %v", c.name, h.Cause())
		}
		began := time.Now()
		c.lose(a, h)
		select {
		case <-h.Done():
		case <-time.After(patience):
			t.Fatalf("%s: the loss is not told", c.name)
		}
		if w.expired(h.Cause()) && c.cause == zk.ErrSessionExpired {
			c.cause = errors.Unwrap(h.Cause())
		}
		if d := time.Since(began); d > c.within+w.slack() {
			t.Errorf("%s: the loss was told after %v, want %v", c.name, d, c.within)
		}
		var lost *lock.LostError
		if !errors.As(h.Cause(), &lost) || !errors.Is(h.Cause(), lock.ErrLost) || !errors.Is(context.Cause(h.Context()), c.cause) || h.Remaining() != 0 {
			t.Errorf("%s: cause %v, context's cause %v, %v left", c.name, h.Cause(), context.Cause(h.Context()), h.Remaining())
		}
		if err := h.Release(w.Context()); !errors.Is(err, c.cause) {
			t.Errorf("%s: the first release says %v, want the loss", c.name, err)
		}
		if err := h.Release(w.Context()); err != nil {
			t.Errorf("%s: the second release says %v", c.name, err)
		}
		a.Heal()
		w.Clean()
	}
}

// The holder goes silent at any phase of its heartbeat. It knows before any other contender can be granted, and
// the next is granted in time (I3).
func f17Phases(w *World, t *testing.T) {
	phases := w.reps(200, 2)
	beat := w.Timeout / 6
	for i := range phases {
		a, b := w.Client("a"), w.Client("b")
		h := must(w, a.Mutex(lock.Options{}).Lock)
		time.Sleep(beat + beat*time.Duration(i)/time.Duration(phases))
		g := ask(w, b.Mutex(lock.Options{}).Lock)
		w.WaitQueue(2)
		silent := time.Now()
		a.Blackhole()
		<-h.Done()
		lost := time.Now()
		if !errors.Is(h.Cause(), lock.ErrDeadline) {
			t.Fatalf("phase %d: lost with %v", i, h.Cause())
		}
		if d := lost.Sub(silent); d > w.Timeout*2/3+w.slack() || w.Virtual && d < w.Timeout*2/3-beat {
			t.Errorf("phase %d: lost after a silence of %v", i, d)
		}
		if !g.Pending() {
			t.Fatalf("phase %d: another contender was granted before the holder knew", i)
		}
		next := g.Granted()
		if !lost.Before(g.at) {
			t.Errorf("phase %d: lost at %v, granted to the next at %v", i, lost, g.at)
		}
		if d := g.at.Sub(silent); d > w.Timeout+2*w.Tick+w.slack() {
			t.Errorf("phase %d: granted %v after the holder was last heard", i, d)
		}
		a.Heal()
		w.MustRelease(next)
		a.Close(w.Context())
		b.Close(w.Context())
	}
}

// A follower that is cut off from its leader answers pings and nothing else. That is enough for a hold
// that is vouched for by pings, as documented, and not for one by default.
func f17CutOffFollower(w *World, t *testing.T) {
	for _, c := range []struct {
		vouch client.Vouch
		lost  bool
	}{{client.VouchPing, false}, {client.VouchSync, true}, {client.VouchWrite, true}} {
		var cutOff atomic.Bool
		f := w.follower()
		f.swallow = func(_ int, op wire.Op) bool { return cutOff.Load() && op != wire.OpPing }
		a := w.ClientWith("a", client.Options{Dial: f.Dial})
		h := must(w, a.Mutex(lock.Options{Vouch: c.vouch}).Lock)
		time.Sleep(w.moment())
		cutOff.Store(true)
		select {
		case <-h.Done():
		case <-time.After(w.Timeout*2/3 + w.slack()/4):
		}
		if lost := errors.Is(h.Cause(), lock.ErrDeadline); lost != c.lost {
			t.Errorf("vouched for by %v: lost %v (%v), want %v", c.vouch, lost, h.Cause(), c.lost)
		}
		cutOff.Store(false)
		a.Close(w.Context())
		w.Clean()
	}
}

// sleeper is a client with a clock that can be made to have been asleep.
func sleeper(w *World) (c *Client, sleep func(time.Duration)) {
	start := time.Now()
	var asleep atomic.Int64
	c = w.ClientWith("sleeper", clock.With(client.Options{}, &clock.Clock{
		Elapsed: func(time.Time) time.Duration { return time.Since(start) + time.Duration(asleep.Load()) },
	}))
	return c, func(d time.Duration) {
		asleep.Add(int64(d))
		time.Sleep(time.Millisecond) // in virtual time, no two requests are otherwise one after the other
	}
}

// A process stands still past the deadline of its hold, and the first thing that it does then is to read an
// answer of the ensemble, which has kept the session so far. That does not bring the hold back: the answer
// does not say how soon the leader expires the session.
func f18AnsweredTooLate(w *World, t *testing.T) {
	for _, vouch := range []client.Vouch{client.VouchPing, client.VouchSync, client.VouchWrite} {
		a, sleep := sleeper(w)
		m := a.Mutex(lock.Options{Vouch: vouch})
		h := must(w, m.Lock)
		sleep(w.Timeout * 3 / 4)
		_, err := a.Set(w.Context(), h.Node(), nil, -1) // any answer of the strongest kind will do
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Fatal(err)
		}
		if err := h.Cause(); !errors.Is(err, lock.ErrDeadline) || h.Remaining() != 0 {
			t.Errorf("%v: the hold goes on after an answer that came too late: %v, %v left", vouch, err, h.Remaining())
		}
		w.WaitQueue(0)
	}
}

// A process stands still, with nothing held, and then gets the lock. Its hold begins when the leader has
// heard of the session again, and not with the first answer.
func f18GrantedAfterASleep(w *World, t *testing.T) {
	a, sleep := sleeper(w)
	m := a.Mutex(lock.Options{})
	w.MustRelease(must(w, m.Lock))
	sleep(w.Timeout * 3 / 4)
	began := time.Now()
	h := must(w, m.Lock)
	if d := time.Since(began); d < w.Timeout/4 {
		t.Errorf("granted %v after the sleep, want that the leader has %v to hear of it", d, w.Timeout/4)
	}
	w.MustRelease(h)
	began = time.Now()
	w.MustRelease(must(w, m.Lock))
	if d := time.Since(began); d > w.slack() && w.Virtual {
		t.Errorf("the next one took %v", d)
	}
}

// The machine was suspended: the first look at the hold knows, timers or not. The clock is set:
// nothing happens.
func f18Suspended(w *World, t *testing.T) {
	start := time.Now()
	var jump atomic.Int64
	c := clock.Clock{Elapsed: func(time.Time) time.Duration { return time.Since(start) + time.Duration(jump.Load()) }}
	a := w.ClientWith("a", clock.With(client.Options{}, &c))
	m := a.Mutex(lock.Options{})
	h := must(w, m.Lock)
	jump.Store(int64(-time.Hour))
	time.Sleep(w.Timeout)
	if err := h.Cause(); err != nil {
		t.Fatalf("a clock that was set back cost the lock: %v", err)
	}
	jump.Store(int64(-time.Hour + 2*w.Timeout))
	if err := h.Cause(); !errors.Is(err, lock.ErrDeadline) {
		t.Errorf("the first look after a suspension says %v, want ErrDeadline", err)
	}
	if h.Context().Err() == nil {
		t.Error("the hold's context goes on")
	}

	again := must(w, m.Lock)
	time.Sleep(w.moment()) // until it looks at the clock only now and then
	a.Blackhole()          // or a heartbeat shows that the ensemble has kept the session all the same
	jump.Add(int64(2 * w.Timeout))
	began := time.Now()
	w.Ended(again, lock.ErrDeadline) // without being asked
	if d := time.Since(began); d > time.Second+w.slack() {
		t.Errorf("the loss was told %v after the machine woke up", d)
	}
	a.Heal()
}

// Where work begins, the clock is looked at first: after a suspension timers are late.
func f18NothingBegins(w *World, t *testing.T) {
	start := time.Now()
	var jump atomic.Int64
	c := clock.Clock{Elapsed: func(time.Time) time.Duration { return time.Since(start) + time.Duration(jump.Load()) }}
	a := w.ClientWith("a", clock.With(client.Options{}, &c))
	m := a.Mutex(lock.Options{})
	work := func(context.Context) error {
		t.Error("work began under a hold whose deadline has passed")
		return nil
	}
	both := w.AllOf(a.Mutexes(w.beside(2), lock.Options{})...)
	for _, try := range []struct {
		name  string
		begin func() (held interface{ Release(context.Context) error }, begin func() error)
	}{
		{"Lock under the hold's context", func() (interface{ Release(context.Context) error }, func() error) {
			h := must(w, m.Lock)
			return h, func() error {
				again, err := m.Lock(h.Context())
				if err == nil {
					again.Release(w.Context())
				}
				return err
			}
		}},
		{"Hold.Do", func() (interface{ Release(context.Context) error }, func() error) {
			h := must(w, m.Lock)
			return h, func() error { return h.Do(w.Context(), work) }
		}},
		{"Mutex.Do under the hold's context", func() (interface{ Release(context.Context) error }, func() error) {
			h := must(w, m.Lock)
			return h, func() error { return m.Do(h.Context(), work) }
		}},
		{"Holds.Do", func() (interface{ Release(context.Context) error }, func() error) {
			h, err := both.Lock(w.Context())
			if err != nil {
				t.Fatal(err)
			}
			return h, func() error { return h.Do(w.Context(), work) }
		}},
	} {
		h, begin := try.begin()
		jump.Add(int64(time.Hour))
		if err := begin(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrDeadline) {
			t.Errorf("%s after a suspension of an hour = %v, want the loss", try.name, err)
		}
		h.Release(w.Context())
	}
}

// A holder that does not notice anything writes late. Its token gives it away, and inside ZooKeeper the
// check that its hold hands out.
func f19LateWrite(w *World, t *testing.T) {
	var reg Register
	a, b := w.Client("a"), w.Client("b")
	old := must(w, a.Mutex(lock.Options{}).Lock)
	g := ask(w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	a.Blackhole()
	h := g.Granted()
	if h.Token() <= old.Token() {
		t.Errorf("token %#x after %#x", h.Token(), old.Token())
	}
	if !reg.Write(h.Token()) {
		t.Error("the new holder's write was refused")
	}
	if reg.Write(old.Token()) {
		t.Error("the old holder's late write was taken")
	}
	target := w.Create(zk.Parent(w.dir)+"/state", zk.Persistent)
	if _, err := w.admin.Multi(w.Context(), old.Check(), client.OpSet(target, []byte("old"), -1)); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("a write guarded by the old hold = %v, want ErrNoNode", err)
	}
	if _, err := w.admin.Multi(w.Context(), h.Check(), client.OpSet(target, []byte("new"), -1)); err != nil {
		t.Errorf("a write guarded by the new hold = %v", err)
	}
	if data, _, err := w.fresh().Get(w.Context(), target); string(data) != "new" {
		t.Errorf("the state is %q (%v)", data, err)
	}
	a.Heal()
	w.MustRelease(h)
	w.Ended(old, lock.ErrLost)
}

// Tokens grow from grant to grant, also when the directory is deleted in between and numbers start again.
func f19TokensGrow(w *World, t *testing.T) {
	var reg Register
	clients := []*Client{w.Client("a"), w.Client("b"), w.Client("c")}
	for i := range w.reps(1000, 100) {
		h := must(w, clients[i%len(clients)].Mutex(lock.Options{}).Lock)
		reg.Enter(h.Token())
		reg.Leave()
		w.MustRelease(h)
		if i%10 == 0 {
			w.Delete(w.dir)
		}
	}
	reg.Check(t)
}

// The server answers the return of a session with a fresh one. Everything of the old one is over, and
// nothing of it is done in the new one's name.
func f20ResumedAsAnother(w *World, t *testing.T) {
	f := w.follower()
	var shakes atomic.Int64
	f.handshake = func(r *wire.ConnectRequest) {
		if shakes.Add(1) > 1 {
			r.SessionID, r.Password = 0, make([]byte, 16)
		}
	}
	a := w.ClientWith("a", client.Options{Dial: f.Dial})
	h := must(w, a.Mutex(lock.Options{}).Lock)
	mark := a.Proxy.Mark()
	a.Unreachable()
	queued := ask(w, a.MutexAt(w.dir+"-other", lock.Options{}).Lock)
	time.Sleep(w.moment())
	a.Reachable()
	w.Ended(h, zk.ErrSessionExpired)
	if _, err := queued.Outcome(); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("the queued Lock = %v, want the session's end", err)
	}
	if sent := a.Proxy.Since(mark).Asked().But(wire.OpCreateSession); len(sent) > 0 {
		t.Errorf("sent under the other session: %v", sent)
	}
	w.Expire(a.Session) // the old one, which the ensemble still keeps
}

// A break shorter than the deadline costs nothing.
func f21ShortFlap(w *World, t *testing.T) {
	a := w.Client("a")
	h := must(w, a.Mutex(lock.Options{}).Lock)
	for range 3 {
		time.Sleep(w.moment())
		a.Unreachable()
		time.Sleep(200 * time.Millisecond)
		a.Reachable()
	}
	time.Sleep(w.Timeout)
	if err := h.Cause(); err != nil {
		t.Fatalf("a short break cost the lock: %v", err)
	}
	if line := w.NodesOf("a"); len(line) != 1 || line[0] != h.Node() {
		t.Errorf("the queue is %v, the hold's node %s", line, h.Node())
	}
	w.MustRelease(h)
}

// The hold is lost by its deadline, and then the session turns out to live. The node does not stay in
// the others' way, and the same Mutex works again.
func f21LostAlive(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	m := a.Mutex(lock.Options{})
	h := must(w, m.Lock)
	g := ask(w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	a.Blackhole()
	w.Ended(h, lock.ErrDeadline)
	a.Heal()
	healed := time.Now()
	next := g.Granted()
	if d := g.at.Sub(healed); d > time.Second+w.slack() {
		t.Errorf("the next was granted %v after the network was healthy", d)
	}
	if err := a.Err(); err != nil {
		t.Fatalf("the session did not survive: %v", err)
	}
	again := ask(w, m.Lock)
	w.WaitQueue(2)
	w.MustRelease(next)
	second := again.Granted()
	if second.Token() <= h.Token() || h.Cause() == nil {
		t.Errorf("tokens %#x and %#x; the first hold says %v", h.Token(), second.Token(), h.Cause())
	}
	w.MustRelease(second)
}

// The context that a lock was asked for with bounds the asking.
func f22AcquireContextEnds(w *World, t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), key{}, "v"), time.Second+w.slack())
	h, err := w.Client("a").Mutex(lock.Options{}).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	time.Sleep(3 * w.Timeout)
	if err := h.Cause(); err != nil {
		t.Errorf("the hold is over: %v", err)
	}
	if h.Context().Value(key{}) != "v" {
		t.Error("the hold's context lacks the values of the one that asked")
	}
	w.MustRelease(h)
}

// Do gives the lock back when its function panics, returns, or has its context cancelled.
func f22DoPanics(w *World, t *testing.T) {
	m := w.Client("a").Mutex(lock.Options{})
	func() {
		defer func() {
			if p := recover(); p != "oops" {
				t.Errorf("recovered %v", p)
			}
		}()
		m.Do(w.Context(), func(context.Context) error { panic("oops") })
	}()
	w.Clean()

	ctx, cancel := context.WithCancel(w.Context())
	wrong := errors.New("wrong")
	err := m.Do(ctx, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		return fmt.Errorf("work: %w", wrong)
	})
	if !errors.Is(err, wrong) {
		t.Errorf("Do = %v, want the function's error", err)
	}
	w.Clean()

	err = m.Do(w.Context(), func(ctx context.Context) error {
		w.Delete(w.NodesOf("a")[0])
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, lock.ErrNodeDeleted) {
		t.Errorf("Do of a lock that was lost = %v, want the loss", err)
	}
}

// Many locks come and go on a session; those that are held stay.
func f22ManyLocks(w *World, t *testing.T) {
	a := w.Client("a")
	h := must(w, a.Mutex(lock.Options{}).Lock)
	many := w.dir + "-many"
	w.Create(many, zk.Persistent)
	for i := range w.reps(10_000, 50) {
		other := must(w, a.MutexAt(fmt.Sprintf("%s/%d", many, i), lock.Options{}).Lock)
		if err := other.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Cause(); err != nil {
		t.Errorf("the lock that was held is lost: %v", err)
	}
	w.MustRelease(h)
}

// An ACL that does not let us read our own node keeps the hold from watching it, not from holding; and it is
// no reason to ask again and again.
func unreadableHold(w *World, t *testing.T) {
	a := w.Client("a")
	h := must(w, a.Mutex(lock.Options{ACL: []zk.ACL{{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}}}).Lock)
	mark := a.Proxy.Mark()
	time.Sleep(w.Timeout)
	if err := h.Cause(); err != nil {
		t.Errorf("the hold is over: %v", err)
	}
	if sent := a.Proxy.Since(mark).Asked(); len(sent) > 30 {
		t.Errorf("%d requests while the hold was at rest", len(sent))
	}
	w.MustRelease(h)
}

// A hold at rest sends no more than one request a sixth of the timeout, and its watch on the own node.
func idleHold(w *World, t *testing.T) {
	a := w.Client("a")
	mark := a.Proxy.Mark()
	h := must(w, a.Mutex(lock.Options{}).Lock)
	w.Within(w.Timeout, "a watch on the node", func() bool { return len(a.Proxy.Since(mark).Asked(wire.OpGetData)) > 0 })
	mark = a.Proxy.Mark()
	const beats = 12
	time.Sleep(w.Timeout / 6 * beats)
	sent := a.Proxy.Since(mark).Asked()
	if len(sent) > beats || len(sent) < beats/2 {
		t.Errorf("%d requests in %d beats: %s", len(sent), beats, sent.Ops())
	}
	w.MustRelease(h)
}
