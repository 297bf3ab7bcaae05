package world

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// faults are what goes wrong.
var faults = []deed{
	{"cut", 5, planNothing, runCut},
	{"mute", 5, planSpell, runMute},
	{"deaf", 3, planSpell, runHalfOpen},
	{"refuse", 3, planSpell, runRefuse},
	{"expire", 3, planNothing, runExpire},
	{"break", 3, planBreak, runBreak},
	{"revoke", 2, planBreak, runRevoke},
	{"crash", 3, planDown, runCrash},
	{"pause", 5, planSpell, runPause},
	{"clock", 1, planSpell, runClock},
	{"snip", 6, planSnip, runSnip},
	{"stun", 2, planSpell, runStun},
	{"echo", 6, planSpell, runEcho},
	{"late", 3, planLate, runLate},
	{"bounds", 2, planBounds, runBounds},
}

func planNothing(d *dice, s *Step) { s.Aim = d.IntN(3) > 0 }

func planSpell(d *dice, s *Step) {
	s.For = d.upTo(100*time.Millisecond, d.plan.Timeout, 3*d.plan.Timeout)
	s.N = d.IntN(3)
	s.Aim = d.IntN(3) > 0
}

// victim is the process that a fault hits.
func (w *World) victim(s Step) *proc {
	if s.Aim {
		if p := w.witness.last(); p != nil {
			return p
		}
	}
	return w.procs[s.Who]
}

func planDown(d *dice, s *Step) { s.For = d.upTo(10*time.Millisecond, d.plan.Timeout) }

// runCut breaks the process's connections.
func runCut(w *World, s Step) { w.victim(s).link().Cut() }

// runMute makes nothing arrive for a while, in one direction or in both; then all of it does.
func runMute(w *World, s Step) {
	l, d := w.victim(s).link(), directionOf(s)
	l.Mute(d)
	w.spell(s.For)
	l.Unmute(d)
}

// runHalfOpen makes everything vanish that is sent, in one direction or in both, while connections seem to
// be open. No stream goes on after that: they break.
func runHalfOpen(w *World, s Step) {
	l := w.victim(s).link()
	l.Lose(directionOf(s))
	w.spell(s.For)
	l.Cut()
	l.Heal()
}

func directionOf(s Step) memnet.Direction {
	return []memnet.Direction{memnet.Both, memnet.ToServer, memnet.ToClient}[s.N]
}

// runRefuse refuses all connections for a while.
func runRefuse(w *World, s Step) {
	l := w.victim(s).link()
	l.Refuse()
	l.Cut()
	w.spell(s.For)
	l.Heal()
}

// runExpire ends the process's session on the server, as an operator would. The server does not crash meanwhile, or the
// witness would not know whether the end of the session is on its disk.
func runExpire(w *World, s Step) {
	<-w.keeper.life
	defer func() { w.keeper.life <- struct{}{} }()
	cs, srv := w.victim(s).now(), w.keeper.now()
	if cs == nil || srv == nil {
		return
	}
	w.witness.putOut(cs.ID())
	srv.ExpireSession(cs.ID())
}

func planSnip(d *dice, s *Step) {
	s.For = d.upTo(100*time.Millisecond, d.plan.Timeout)
	s.N = d.IntN(5)
	s.Key = d.IntN(4)
}

// runSnip does something when the process's next request but a few for a lock is on its way. A server that crashes then may stay
// away for longer than the step takes, so that is a fault of its own.
func runSnip(w *World, s Step) {
	p := w.procs[s.Who]
	m := faultproxy.Match{Prefix: "/sim", Skip: s.Key}
	over := false                         // guarded by w.mu
	begin := func(f func(*World, Step)) { // while this step goes on, or the world might no longer wait for it
		w.mu.Lock()
		defer w.mu.Unlock()
		if !over {
			w.steps.Go(func() { w.fault(func() { f(w, s) }) })
		}
	}
	var rule *faultproxy.Rule
	switch s.N {
	case 0:
		rule = p.proxy.CutBefore(m)
	case 1:
		rule = p.proxy.CutAfter(m)
	case 2:
		rule = p.proxy.Before(m, func(faultproxy.Request) { runExpire(w, s) })
	case 3:
		rule = p.proxy.After(m, func(faultproxy.Request, faultproxy.Reply) { begin(runCrash) })
	case 4:
		rule = p.proxy.After(m, func(faultproxy.Request, faultproxy.Reply) { begin(runPause) })
	}
	w.spell(turmoil)
	rule.Remove()
	w.mu.Lock()
	defer w.mu.Unlock()
	over = true
}

func planBreak(d *dice, s *Step) {
	s.N = d.IntN(len(brittle) * d.plan.Keys)
	s.Key = d.IntN(3)
}

// runBreak deletes one of the first nodes of a lock, as a careless operator would.
func runBreak(w *World, s Step) {
	w.asOperator(s, func(ctx context.Context, admin *client.Session, c lock.Contender) {
		w.witness.putOut(c.Node)
		inspect.Break(ctx, admin, c)
	})
}

// runRevoke asks one of the first in a line to give up.
func runRevoke(w *World, s Step) {
	w.asOperator(s, func(ctx context.Context, admin *client.Session, c lock.Contender) {
		if _, err := inspect.Revoke(ctx, admin, c); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, zk.ErrSessionExpired) {
			w.violated("revoke: %v", err)
		}
	})
}

// asOperator does something to one of the first in a line, if there is one and the server is up.
func (w *World) asOperator(s Step, f func(context.Context, *client.Session, lock.Contender)) {
	admin, err := w.admin()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	defer admin.Close(ctx)
	line, err := inspect.Contenders(ctx, admin, dirOf(brittle[s.N%len(brittle)], s.N/len(brittle)))
	if err == nil && s.Key < len(line) {
		f(ctx, admin, line[s.Key])
	}
}

// brittle are the kinds of locks whose nodes may be deleted by hand: not those of an unfair lock, where that
// can put out the next holder too.
var brittle = []string{"mutex", "rw", "sem", "election"}

// runPause stops the process for a while: none of its goroutines runs, while its connections stay open and
// the kernel goes on taking what arrives for it.
func runPause(w *World, s Step) {
	p := w.victim(s)
	p.pause()
	w.spell(s.For)
	p.resume()
}

// runStun stops the process, and when it runs again, it cannot reach any server for a while.
func runStun(w *World, s Step) {
	p := w.victim(s)
	p.pause()
	w.spell(s.For / 3)
	p.link().Mute(memnet.Both)
	p.resume()
	w.spell(s.For)
	p.link().Unmute(memnet.Both)
}

// runEcho keeps the server's answers back, then what the process sends as well, and then lets the answers
// through: the process hears again of a server that has heard nothing of it for long.
func runEcho(w *World, s Step) {
	l := w.victim(s).link()
	l.Mute(memnet.ToClient)
	w.spell(w.plan.Timeout / 8)
	l.Mute(memnet.ToServer)
	w.spell(w.plan.Timeout/3 + s.For/9)
	l.Unmute(memnet.ToClient)
	w.spell(w.plan.Timeout)
	l.Unmute(memnet.ToServer)
}

func planLate(d *dice, s *Step) {
	s.For = d.between(d.plan.Timeout/4, d.plan.Timeout/2)
	s.Aim = d.IntN(3) > 0
}

// runLate delays the answer to the process's next heartbeat. Besides that, neither side hears anything of the other
// until long after. A connection is given up when it is silent for four times as long as it is from one heartbeat to
// the next, so the answer may be late by three times that.
func runLate(w *World, s Step) {
	p := w.victim(s)
	cs := p.now()
	if cs == nil {
		return
	}
	beat := w.plan.Timeout / 6
	const early = 20 * time.Millisecond
	if !w.within(2*beat, func() bool { return bridge.Of(cs).Lease(int(w.plan.Vouch)).Age < beat-early }) {
		return
	}
	l := p.link()
	time.Sleep(beat - early - bridge.Of(cs).Lease(int(w.plan.Vouch)).Age)
	l.Mute(memnet.ToClient)
	time.Sleep(2*early + 2*w.plan.Latency)
	l.Mute(memnet.Both)
	w.spell(s.For)
	l.Unmute(memnet.ToClient)
	time.Sleep(time.Millisecond)
	l.Mute(memnet.ToClient)
	w.spell(w.plan.Timeout)
	l.Unmute(memnet.Both)
}

func planBounds(d *dice, s *Step) {
	s.For = d.upTo(10*time.Millisecond, d.plan.Timeout/2)
	s.N = d.IntN(3)
}

// runBounds restarts the server with another maximum of session timeouts. A session that goes on is granted another timeout then.
func runBounds(w *World, s Step) {
	longest := []time.Duration{max(w.plan.Timeout*3/8, 2*w.plan.Tick), w.plan.Timeout, 0}[s.N]
	w.keeper.restart(s.For, w.dice(s), func() { w.keeper.longest = longest })
}

// runClock steps the clock that counts suspended time, back or forward.
func runClock(w *World, s Step) {
	w.procs[s.Who].step.Add(int64(s.For) * []int64{-1, 1, 1}[s.N])
}

// runCrash takes the server's power away for a while.
func runCrash(w *World, s Step) { w.keeper.crash(s.For, w.dice(s)) }

// spell is how long a fault lasts: it ends with the turmoil.
func (w *World) spell(d time.Duration) { time.Sleep(min(d, turmoil-w.now())) }
