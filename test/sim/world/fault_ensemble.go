package world

import (
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/test/sim/replica"
)

// ensembleFaults are what goes wrong among several servers.
var ensembleFaults = []deed{
	{"lag", 8, planFollower, runLag},
	{"cutoff", 14, planFollower, runCutOff},
	{"forget", 4, planFollower, runForget},
	{"expire", 2, planNothing, runExpire},
	{"cut", 4, planNothing, runCut},
	{"snip", 6, planSnip, runSnip},
	{"gap", 8, planGap, runGap},
}

func planFollower(d *dice, s *Step) {
	s.For = d.upTo(d.plan.Timeout, 3*d.plan.Timeout)
	s.N = d.IntN(2)
	s.Key = d.IntN(2)
	s.Aim = d.IntN(3) > 0
}

// follower returns the follower that a fault hits: that of the process that has come in last, if it is aimed and
// that process is connected to one. It is nil if the plan has none.
func (w *World) follower(s Step) *replica.Replica {
	followers := w.keeper.followers
	if p := w.witness.last(); p != nil && s.Aim {
		if r := w.followerOf(p); r != nil {
			return r
		}
	}
	if s.Key < len(followers) {
		return followers[s.Key]
	}
	return nil
}

// followerOf returns the follower that a process is connected to, nil if it is connected to none.
func (w *World) followerOf(p *proc) *replica.Replica {
	cs := p.now()
	if cs == nil {
		return nil
	}
	st, _ := cs.State()
	name, _, _ := strings.Cut(st.Server, ":")
	for _, r := range w.keeper.followers {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func planGap(d *dice, s *Step) {
	s.For = d.between(d.plan.Timeout*35/100, d.plan.Timeout*65/100)
	s.N = d.IntN(100)
	s.Aim = d.IntN(3) > 0
}

// runGap lets the follower hear nothing of a process for about half its session timeout: the process stands still, or the
// network holds up what it sends. What comes then is answered, and within half a tick the follower is cut off from the leader,
// and the process from the network: the leader may not hear of that.
func runGap(w *World, s Step) {
	p := w.victim(s)
	r, cs := w.followerOf(p), p.now()
	if r == nil || w.plan.Vouch == client.VouchPing {
		return
	}
	const early = 20 * time.Millisecond
	beat := w.plan.Timeout / 6
	if w.within(2*beat, func() bool { return bridge.Of(cs).Lease(int(w.plan.Vouch)).Age < beat-early }) {
		time.Sleep(beat - early - bridge.Of(cs).Lease(int(w.plan.Vouch)).Age)
	}
	resumed := time.Now()
	if s.N%2 == 0 {
		p.pause()
		w.spell(s.For)
		resumed = time.Now()
		p.resume()
	} else {
		l := p.link()
		l.Mute(memnet.ToServer)
		w.spell(s.For)
		l.Unmute(memnet.ToServer)
	}
	over := time.Now()
	for bridge.Of(cs).Lease(int(w.plan.Vouch)).Age > time.Since(resumed) {
		if time.Since(over) > w.plan.Tick/2 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(w.plan.Tick / 8 * time.Duration(s.N) / 100)
	w.note(p.n, "heard again after a silence, and cut off with %s", r.Name)
	r.SetCut(replica.Follower)
	l := p.link()
	l.Refuse()
	l.Cut()
	w.spell(2*w.plan.Timeout + w.plan.Tick)
	l.Heal()
	r.SetCut(replica.Whole)
}

// runLag makes a follower fall behind for a while.
func runLag(w *World, s Step) {
	if r := w.follower(s); r != nil {
		lag := s.For / 4
		if w.plan.Vouch == client.VouchPing { // a holder hears of its end as late as its follower does: F16 allows so much
			lag = min(lag, w.plan.Timeout*2/3)
		}
		r.SetLag(lag)
		w.spell(s.For)
		r.SetLag(followerLag)
	}
}

// runForget makes a follower take clients whose session has ended for new ones.
func runForget(w *World, s Step) {
	if r := w.follower(s); r != nil {
		r.SetForgetful(true)
		w.spell(s.For)
		r.SetForgetful(false)
	}
}

// runCutOff cuts a follower off, or a leader, as far as the level of vouching is good for.
func runCutOff(w *World, s Step) {
	r := w.follower(s)
	if r == nil || w.plan.Vouch == client.VouchPing {
		return
	}
	cut := replica.Follower
	if w.plan.Vouch == client.VouchWrite && s.N == 0 {
		cut = replica.LostLeader
	}
	r.SetCut(cut)
	w.spell(s.For)
	r.SetCut(replica.Whole)
}
