package locksuite

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
)

// A Stander stands for the world's election, by election.Run, until it is stopped. While it leads it is in
// the register.
type Stander struct {
	Proxy    *faultproxy.Proxy // in front of all its sessions
	w        *World
	cancel   context.CancelFunc
	done     chan struct{}
	err      error        // of Run
	sessions atomic.Int64 // opened
	terms    atomic.Int64 // begun
	mu       sync.Mutex
	session  *client.Session // the last one
	term     *election.Term  // the last one
}

// Stand makes a client a candidate. When its term ends it works for as long as linger says.
func (w *World) Stand(label string, reg *Register, opt election.Options, linger time.Duration) *Stander {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stander{Proxy: faultproxy.New(w.Dial), w: w, cancel: cancel, done: make(chan struct{})}
	opt.ID, opt.Lock.Label = label, label
	copt := client.Options{SessionTimeout: w.Timeout, Dial: s.Proxy.Dial, BackoffMax: backoffMax, CloseTimeout: time.Second}
	k, err := client.Keep(w.Context(), w.Servers, clock.With(copt, w.Clock))
	if err != nil {
		w.t.Fatal(err)
	}
	k.Go(func(_ context.Context, c *client.Session) {
		s.sessions.Add(1)
		s.mu.Lock()
		s.session = c
		s.mu.Unlock()
	})
	go func() {
		defer close(s.done)
		defer k.Close(context.Background())
		s.err = election.Run(ctx, k, w.dir, opt, func(ctx context.Context, t *election.Term) error {
			reg.Enter(t.Token())
			defer reg.Leave()
			s.mu.Lock()
			s.term = t
			s.mu.Unlock()
			s.terms.Add(1)
			<-ctx.Done()
			time.Sleep(linger)
			return context.Cause(ctx)
		})
	}()
	w.t.Cleanup(s.Proxy.Close)
	w.t.Cleanup(s.Stop)
	return s
}

// Stop has the stander resign and waits until it is gone.
func (s *Stander) Stop() {
	s.cancel()
	<-s.done
}

// last returns the stander's last session and its last term.
func (s *Stander) last() (*client.Session, *election.Term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session, s.term
}

// leads waits until the stander leads in another term than the first n.
func (s *Stander) leads(n int64) *election.Term {
	s.w.t.Helper()
	s.w.Within(patience, "the candidate leads", func() bool { return s.terms.Load() > n })
	_, t := s.last()
	return t
}

// leading reports whether the stander leads.
func (s *Stander) leading() bool {
	_, t := s.last()
	return t != nil && t.Cause() == nil
}

// oneLeads waits until exactly one of the standers leads, at most d.
func (w *World) oneLeads(d time.Duration, standers []*Stander) {
	w.t.Helper()
	w.Within(d, "exactly one leads", func() bool {
		leaders := 0
		for _, s := range standers {
			if s.leading() {
				leaders++
			}
		}
		return leaders == 1
	})
}

func (w *World) resign(t *election.Term) {
	w.t.Helper()
	if err := t.Resign(w.Context()); err != nil {
		w.t.Errorf("resign: %v", err)
	}
}
