package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// works are what processes do. To add one is to write a deed for it and to put it here, and its directory
// into lockKinds.
var works = []deed{
	{"mutex", 10, planLock, runMutex},
	{"try", 3, planLock, runTry},
	{"do", 2, planLock, runDo},
	{"write", 4, planLock, runWrite},
	{"read", 5, planLock, runRead},
	{"permit", 5, planLock, runPermit},
	{"permits", 2, planPermits, runPermits},
	{"resize", 1, planPermits, runResize},
	{"unfair", 4, planLock, runUnfair},
	{"all", 4, planLock, runAll},
	{"lead", 5, planLock, runLead},
	{"znode", 14, planZnode, runZnode},
	{"present", 3, planLock, runPresent},
}

// lockKinds are the kinds of locks, which directories are named after.
var lockKinds = []string{"mutex", "rw", "sem", "election", "unfair"}

// keys is how many locks there are of a kind at most.
const keys = 2

func dirOf(kind string, key int) string { return fmt.Sprintf("/sim/%s%d", kind, key) }

func planLock(d *dice, s *Step) {
	s.Key = d.IntN(d.plan.Keys)
	s.N = d.IntN(4)
	s.Wait = d.upTo(20*time.Millisecond, 2*time.Second, 15*time.Second)
	s.For = d.upTo(time.Millisecond, time.Second, 8*time.Second)
	s.Release = d.upTo(20*time.Millisecond, 2*time.Second)
}

// options are those of a step's lock.
func (w *World) options(s Step) lock.Options {
	opt := bridge.OnBehalf(lock.Options{Label: "sim", Vouch: w.plan.Vouch, Reentrant: true, Requeue: (w.plan.Seed+uint64(s.ID))%2 == 0}, 1, "", nil)
	if s.Do != "all" && s.Do != "do" {
		opt.Hooks.Waiting = func(_ context.Context, _ string, at lock.Place) { w.witness.waits(s, at.Node) }
	}
	return opt
}

func runMutex(w *World, s Step) { w.takeMutex(s, (*lock.Mutex).Lock) }
func runTry(w *World, s Step)   { w.takeMutex(s, (*lock.Mutex).TryLock) }

func (w *World) takeMutex(s Step, take func(*lock.Mutex, context.Context) (*lock.Hold, error)) {
	w.take(s, dirOf("mutex", s.Key), alone, func(ctx context.Context, cs *client.Session) ([]holding, error) {
		m, err := lock.NewMutex(cs, dirOf("mutex", s.Key), w.options(s))
		if err != nil {
			return nil, err
		}
		return one(take(m, ctx))
	})
}

func runUnfair(w *World, s Step) {
	w.take(s, dirOf("unfair", s.Key), alone, func(ctx context.Context, cs *client.Session) ([]holding, error) {
		m, err := lock.NewUnfair(cs, dirOf("unfair", s.Key), w.options(s))
		if err != nil {
			return nil, err
		}
		if s.N == 0 {
			return one(m.TryLock(ctx))
		}
		return one(m.Lock(ctx))
	})
}

// runDo works in Do, and now and then panics there.
func runDo(w *World, s Step) {
	p, path := w.procs[s.Who], dirOf("mutex", s.Key)
	ctx, cancel := context.WithTimeout(context.Background(), s.Wait+s.For)
	defer cancel()
	cs, err := p.open(ctx)
	if err != nil {
		return
	}
	m, err := lock.NewMutex(cs, path, w.options(s))
	if err != nil {
		w.violated("do: %v", err)
		return
	}
	defer func() { recover() }()
	asked := w.now()
	err = m.Do(ctx, func(ctx context.Context) error {
		h, err := m.Lock(ctx) // it re-enters
		if err != nil {
			return nil
		}
		w.begins(s, h)
		st := &stay{p: p, path: path, hold: h, token: h.Token(), session: cs.ID(), asked: asked}
		if h.Cause() == nil {
			w.witness.enter(st)
			defer w.witness.leave(st)
			defer context.AfterFunc(ctx, func() { w.witness.leave(st) })()
		}
		defer h.Release(context.Background())
		select {
		case <-time.After(s.For):
		case <-ctx.Done():
		}
		if s.N == 0 {
			panic("as planned")
		}
		return nil
	})
	w.note(s.Who, "#%d do: %v", s.ID, err)
}

// A holding is a lock.Hold, or what there is like it.
type holding interface {
	Node() string
	Token() int64
	Check() client.Op
	Context() context.Context
	Done() <-chan struct{}
	Cause() error
	Remaining() time.Duration
	Release(context.Context) error
}

func one(h *lock.Hold, err error) ([]holding, error) {
	if h == nil {
		return nil, err
	}
	return []holding{h}, err
}

func several(hs *lock.Holds, err error) ([]holding, error) {
	if err != nil {
		return nil, err
	}
	var all []holding
	for _, h := range hs.All() {
		all = append(all, h)
	}
	return all, err
}

// take asks for a lock, works under it and gives it back; some do so several times, with little to do after the first.
func (w *World) take(s Step, path string, kind stayKind, ask func(context.Context, *client.Session) ([]holding, error)) {
	w.takeOnce(s, path, kind, ask)
	if s.ID%3 == 0 {
		for s.For = time.Millisecond; s.N < 8; s.N += 2 {
			w.takeOnce(s, path, kind, ask)
		}
	}
}

func (w *World) takeOnce(s Step, path string, kind stayKind, ask func(context.Context, *client.Session) ([]holding, error)) {
	p := w.procs[s.Who]
	var holds []holding
	var cs *client.Session
	var err error
	asked := w.now()
	p.bounded(s.Do, s.Wait, func(ctx context.Context) {
		if cs, err = p.open(ctx); err == nil {
			holds, err = ask(ctx, cs)
		}
	})
	w.witness.waits(s, "")
	w.outcome(s, len(holds) > 0, err)
	if len(holds) == 0 {
		if kind != permit && errors.Is(err, context.DeadlineExceeded) {
			w.progress(s, path, asked)
		}
		return
	}
	stays := make([]*stay, len(holds))
	for i, h := range holds {
		w.begins(s, h)
		stays[i] = &stay{p: p, path: path, hold: h, token: h.Token(), session: cs.ID(), kind: kind, asked: asked}
		w.audit.add(auditClaim{who: s.Who, node: h.Node(), token: h.Token()})
		if h.Cause() == nil {
			w.witness.enter(stays[i])
			defer context.AfterFunc(h.Context(), func() { w.witness.leave(stays[i]) })()
		}
	}
	w.work(s, cs, holds[0], stays[0])
	for i, h := range holds {
		if i > 0 {
			select {
			case <-time.After(s.For / 4):
			case <-h.Done():
			}
		}
		w.witness.leave(stays[i])
		w.release(s, cs, h)
	}
}

// work is what is done under a hold.
func (w *World) work(s Step, cs *client.Session, h holding, st *stay) {
	over := time.After(s.For)
	if st.kind == alone {
		w.increment(s, cs, h, st)
	}
	if s.Do == "write" && s.N < 2 {
		select {
		case <-time.After(s.For / 2):
			w.downgrade(s, h.(*lock.Hold), st)
		case <-h.Done():
		}
	}
	var revoked <-chan struct{}
	if hold, ok := h.(*lock.Hold); ok && s.N == 3 {
		revoked = hold.Revoked()
	}
	if st.kind == alone && w.plan.Followers > 0 {
		select {
		case <-time.After(s.For / 2): // perhaps on another server by now
			w.readCounter(s, cs, h, st)
		case <-h.Done():
		}
	}
	select {
	case <-over:
	case <-revoked:
		w.note(s.Who, "#%d gives up, as it was asked to", s.ID)
	case <-h.Done():
	}
}

// increment adds one to a counter that the lock guards, in a transaction that fails once the lock has passed
// on: no two may write the same number, whatever happens.
func (w *World) increment(s Step, cs *client.Session, h holding, st *stay) {
	path := "/sim/counter" + zk.Base(st.path)
	value, err := w.readCounter(s, cs, h, st)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = cs.Multi(h.Context(), h.Check(), client.OpCreate(path, []byte("1"), zk.Persistent, nil))
	} else if err == nil {
		_, err = cs.Multi(h.Context(), h.Check(), client.OpSet(path, strconv.AppendInt(nil, int64(value+1), 10), -1))
	}
	w.note(s.Who, "#%d counts to %d: %v", s.ID, value+1, err)
	if err != nil {
		return
	}
	w.mu.Lock()
	other, taken := w.counted[counted{path, value + 1}]
	w.counted[counted{path, value + 1}] = s.ID
	w.mu.Unlock()
	w.confirm(path, value+1)
	if taken {
		w.violated("I1: #%d and #%d both counted to %d in %s", other, s.ID, value+1, path)
	}
}

// readCounter returns the value of the counter that the lock guards.
func (w *World) readCounter(s Step, cs *client.Session, h holding, st *stay) (value int, err error) {
	path := "/sim/counter" + zk.Base(st.path)
	r := w.read(path)
	data, _, err := cs.Get(h.Context(), path)
	value, _ = strconv.Atoi(string(data))
	r.check(w, s, st, value, err)
	return value, err
}

// counted is a number that a process has written to a counter.
type counted struct {
	path  string
	value int
}

// outcome checks that the outcome of asking for a lock is one that may be.
func (w *World) outcome(s Step, held bool, err error) {
	w.note(s.Who, "#%d %s: %v", s.ID, s.Do, err)
	var refused *client.OpenError
	var conflict *lock.ConflictError
	var many *lock.TooManyError
	switch {
	case held == (err != nil):
		w.violated("F26: %s: hold %v and error %v", s.Do, held, err)
	case held:
		w.count(func(r *Report) { r.Grants++ })
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, lock.ErrBusy), errors.Is(err, lock.ErrPlaceLost),
		errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrClosed), errors.As(err, &refused), errors.As(err, &conflict), errors.As(err, &many):
		w.count(func(r *Report) { r.Refusals++ })
	case s.Do == "all" && errors.Is(err, lock.ErrLost): // of one that it had already
		w.count(func(r *Report) { r.Losses++ })
	default:
		w.violated("%s refused with %v", s.Do, err)
	}
}

// progress checks that a process that has waited in vain did so because of another, or of a fault (I3).
func (w *World) progress(s Step, path string, asked time.Duration) {
	idle := w.witness.idle(path)
	if idle < 0 {
		return
	}
	free := max(idle, asked, w.calm()+w.plan.Timeout+2*w.plan.Tick)
	if now := w.now(); now > free+time.Second {
		w.violated("I3: #%d waited for %s in vain, which has been free for %v", s.ID, path, now-free)
	}
}

// release gives a hold back.
func (w *World) release(s Step, cs *client.Session, h holding) {
	var err error
	node := h.Node()
	w.procs[s.Who].bounded("release", s.Release, func(ctx context.Context) { err = h.Release(ctx) })
	w.note(s.Who, "#%d released: %v", s.ID, err)
	switch {
	case err == nil:
		if srv := w.keeper.now(); srv != nil {
			for _, node := range slices.Compact([]string{node, h.Node()}) { // a downgrade may have moved it meanwhile
				w.audit.add(auditClaim{who: s.Who, node: node, token: h.Token(), goneBy: srv.Zxid()})
			}
		}
	case errors.Is(err, lock.ErrReleasePending):
	case errors.Is(err, lock.ErrLost):
		w.count(func(r *Report) { r.Losses++ })
	default:
		w.violated("release: %v", err)
	}
}
