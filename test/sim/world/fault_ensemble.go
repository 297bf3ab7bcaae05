package world

import (
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
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
}

func planFollower(d *dice, s *Step) {
	s.For = d.upTo(d.plan.Timeout, 3*d.plan.Timeout)
	s.N = d.IntN(2)
	s.Key = d.IntN(2)
	s.Aim = d.IntN(3) > 0
}

// follower returns the follower that a fault hits: that of whoever has come in last, if it is aimed and he is
// connected to one. It is nil if the plan has none.
func (w *World) follower(s Step) *replica.Replica {
	followers := w.keeper.followers
	if p := w.witness.last(); p != nil && s.Aim {
		if cs := p.now(); cs != nil {
			st, _ := cs.State()
			name, _, _ := strings.Cut(st.Server, ":")
			if i := slices.IndexFunc(followers, func(r *replica.Replica) bool { return r.Name == name }); i >= 0 {
				return followers[i]
			}
		}
	}
	if s.Key < len(followers) {
		return followers[s.Key]
	}
	return nil
}

// runLag makes a follower fall behind for a while.
func runLag(w *World, s Step) {
	if r := w.follower(s); r != nil {
		r.SetLag(s.For / 4)
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
