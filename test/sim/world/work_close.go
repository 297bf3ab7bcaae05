package world

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/zk"
)

// closings are planned apart from other work, by chance of their own: what else a plan has does not depend on them.
var closings = []deed{{"close", 1, planClose, runClose}}

func planClose(d *dice, s *Step) {
	s.N = d.IntN(3)
	s.Wait = d.upTo(20*time.Millisecond, 2*time.Second)
	s.Release = d.upTo(20*time.Millisecond, 5*time.Second)
}

// runClose closes the session of a process while other steps use it: once, twice at the same time, or twice in a row. Each
// Close that returns nil says that the session and its ephemerals are gone.
func runClose(w *World, s Step) {
	p := w.procs[s.Who]
	cs := p.now()
	if cs == nil {
		return
	}
	closeIt := func(limit time.Duration) {
		var err error
		p.bounded("close", limit, func(ctx context.Context) { err = cs.Close(ctx) })
		w.note(s.Who, "#%d closed: %v", s.ID, err)
		switch srv := w.keeper.now(); {
		case err == nil && srv != nil:
			w.audit.add(auditClaim{who: s.Who, session: cs.ID(), goneBy: srv.Zxid()})
		case err != nil && errors.Is(err, zk.ErrSessionExpired):
			w.violated("F23: Close of an expired session: %v", err)
		}
		if err != nil {
			w.breaks(0) // the ensemble may keep the session's claims until its timeout, as after a fault
		}
	}
	if s.N == 0 {
		closeIt(s.Release)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		closeIt(s.Wait)
	}()
	if s.N == 2 {
		<-done
	}
	closeIt(s.Release)
	<-done
}
