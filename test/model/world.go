package model

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// The session timeouts, in units.
const (
	timeout = 12
	shorter = 6 // granted by a server with another maximum
)

// old is the age of a proof that is too old to count.
const old = 2 * timeout

// A Rule is what the holder goes by.
type Rule struct {
	Name string
	// Remaining returns what is left of the lease.
	Remaining func(l lease.Lease, timeout, age time.Duration) time.Duration
	// Timeout returns the timeout that counts, from the one that counted so far and the one that is granted now.
	Timeout func(counted, granted int8) int8
}

// Present is the rule in force.
var Present = Rule{
	Name:      "present rule",
	Remaining: lease.Lease.Remaining,
	Timeout:   func(counted, granted int8) int8 { return min(counted, granted) },
}

// Mutations are rules with which there are two holders.
var Mutations = []Rule{
	{
		Name:      "two thirds of the timeout behind the newest proof",
		Remaining: func(_ lease.Lease, timeout, age time.Duration) time.Duration { return lease.Term(timeout) - age },
		Timeout:   Present.Timeout,
	},
	{
		Name:      "the timeout of the last handshake",
		Remaining: Present.Remaining,
		Timeout:   func(_, granted int8) int8 { return granted },
	},
}

// Limits bound what goes wrong on one way through the world.
type Limits struct {
	HalfTick int8 // in units
	Extra    int8 // requests besides the heartbeats
	Late     int8 // requests that take longer than a unit until they are answered, as long as they like
	Pauses   int8
	Splits   int8 // of follower and leader
	Breaks   int8 // of the connection of client and follower
	Leaders  int8 // elections
	Grants   bool // of another timeout
}

// A flight is how far the client's request has come.
type flight int8

const (
	none     flight = iota
	sent            // on its way to the follower
	answered        // by the leader, and on its way back
)

// proofsMax is how many proofs a history keeps at most in this world.
const proofsMax = timeout/4 + 4

// A state is the world at one moment. Ages and times are in units.
type state struct {
	// The client.
	proofs     [proofsMax]int8 // ages of the requests that count, the oldest first
	answers    [proofsMax]int8 // ages of their answers
	count      int8
	hold       bool
	counted    int8 // the timeout that it counts with
	paused     bool
	flight     flight
	flightAge  int8
	silent     int8 // since it sent something
	slow       bool // the request is one of those that take long
	resumeable bool // it has been paused in this unit, and goes on in another

	// The follower.
	heard    bool // of the client, since it last told the leader
	relayIn  int8 // units until it tells the leader again
	noLeader bool // it is cut off from the leader
	noClient bool // the client is cut off from it, or has no connection

	// The leader.
	expiresIn int8 // 0: it has expired the session
	table     int8 // timeout of the session in its table
	first     int8 // timeout at the session's creation

	extra, late, pauses, splits, breaks, leaders int8 // that may still happen
}

// unit is one unit of time for package lease.
const unit = time.Duration(48) // divisible by what the rules divide a timeout by

// ago is the moment so many units before now, which is 0.
func ago(units int8) clock.Instant { return clock.At(-time.Duration(units) * unit) }

// start returns the world right after the session's creation with a granted timeout.
func start(l Limits, granted int8) state {
	s := state{
		count: 1, counted: granted, relayIn: l.HalfTick, expiresIn: granted, table: granted, first: granted,
		extra: l.Extra, late: l.Late, pauses: l.Pauses, splits: l.Splits, breaks: l.Breaks, leaders: l.Leaders,
	}
	return s
}

// history returns the client's history.
func (s *state) history() (h lease.History, newest clock.Instant) {
	newest = ago(s.proofs[0])
	h.Restart(newest)
	for i := range s.count - 1 {
		newest = ago(s.proofs[i+1])
		h.Add(time.Duration(s.counted)*unit, newest, ago(s.answers[i+1]))
	}
	return h, newest
}

// left returns what is left of the client's lease.
func (s *state) left(r *Rule) time.Duration {
	h, newest := s.history()
	t := time.Duration(s.counted) * unit
	l := h.Lease(t, newest)
	if s.count == 1 {
		l = h.Restart(newest)
	}
	return r.Remaining(l, t, ago(0).Sub(newest))
}

// prove notes that a request of that age has been answered. A lease that had ended does not go on.
func (s *state) prove(r *Rule, age int8) {
	if s.left(r) <= 0 {
		s.hold = false
	}
	if s.count > 0 && age >= s.proofs[s.count-1] {
		return // no later than the newest
	}
	known := int8(0)
	for i := range s.count {
		if s.answers[i]-age >= (s.counted+3)/4 {
			known = i
		}
	}
	copy(s.proofs[:], s.proofs[known:s.count])
	copy(s.answers[:], s.answers[known:s.count])
	s.count -= known
	s.proofs[s.count], s.answers[s.count] = age, 0
	s.count++
	for i := s.count; i < proofsMax; i++ {
		s.proofs[i], s.answers[i] = 0, 0
	}
}

// twoHolders reports whether the lock has passed on while the hold is good.
func (s *state) twoHolders(r *Rule) bool { return s.hold && s.expiresIn == 0 && s.left(r) > 0 }

// A step is something that can happen.
type step struct {
	name string
	next state
}

// steps returns all that can happen in a state, the passing of a unit included.
func (s state) steps(r *Rule, l *Limits) []step {
	var all []step
	add := func(name string, change func(n *state)) {
		n := s
		change(&n)
		all = append(all, step{name, n})
	}
	beat := s.counted / 6
	if !s.hold {
		beat = s.counted / 3
	}
	can := !s.paused && !s.noClient && s.flight == none
	due := can && s.silent >= beat
	if can && (due || s.extra > 0 && s.silent > 0) {
		add("the client sends a request", func(n *state) {
			n.flight, n.flightAge, n.silent = sent, 0, 0
			if !due {
				n.extra--
			}
		})
	}
	prompt := s.flight != none && !s.slow && !s.paused && !s.noLeader && !s.noClient && s.expiresIn > 0 // it is answered in this unit
	if prompt && s.late > 0 {
		add("the request takes long", func(n *state) { n.slow, n.late = true, n.late-1 })
	}
	if s.flight == sent && !s.noClient && s.expiresIn > 0 {
		add("the follower hears the request", func(n *state) {
			n.heard = true
			if !n.noLeader {
				n.flight = answered
			}
		})
	}
	if s.flight == answered && !s.noClient && !s.paused {
		add("the answer arrives", func(n *state) {
			n.prove(r, n.flightAge)
			n.flight, n.flightAge, n.slow = none, 0, false
		})
	}
	if !s.hold && !s.paused && s.expiresIn > 0 && lease.Enough(time.Duration(s.counted)*unit, s.left(r)) {
		add("the lock is granted", func(n *state) { n.hold = true })
	}
	if !s.paused && s.pauses > 0 {
		add("the process stops", func(n *state) { n.paused, n.resumeable, n.pauses = true, false, n.pauses-1 })
	}
	if s.paused && s.resumeable {
		add("the process goes on", func(n *state) { n.paused = false })
	}
	if s.splits > 0 && !s.noLeader {
		add("the follower is cut off from the leader", func(n *state) { n.noLeader, n.splits = true, n.splits-1 })
	}
	if s.breaks > 0 && !s.noClient {
		add("the connection breaks", func(n *state) { n.noClient, n.flight, n.flightAge, n.slow, n.breaks = true, none, 0, false, n.breaks-1 })
	}
	if s.leaders > 0 && s.expiresIn > 0 {
		add("another leader is elected", func(n *state) {
			n.leaders--
			n.expiresIn, n.table = n.first, n.first
			n.noClient, n.noLeader, n.heard, n.flight, n.flightAge, n.slow = true, false, false, none, 0, false
		})
	}
	if s.noClient && !s.paused && s.expiresIn > 0 {
		grants := []int8{s.first}
		if l.Grants {
			grants = []int8{shorter, timeout}
		}
		for _, granted := range grants {
			add(fmt.Sprintf("the client connects again and is granted %d", granted), func(n *state) {
				if n.left(r) <= 0 {
					n.hold = false
				}
				n.counted = r.Timeout(n.counted, granted)
				n.expiresIn, n.table = granted, granted
				n.noClient, n.noLeader, n.heard, n.relayIn = false, false, false, l.HalfTick
				n.proofs, n.answers, n.count = [proofsMax]int8{}, [proofsMax]int8{}, 1
				n.silent = 0
			})
		}
	}
	if !due && !prompt {
		add("a unit passes", func(n *state) { n.pass(l) })
	}
	return all
}

// pass lets a unit pass.
func (s *state) pass(l *Limits) {
	for i := range s.count {
		s.proofs[i], s.answers[i] = min(s.proofs[i]+1, old), min(s.answers[i]+1, old)
	}
	s.silent = min(s.silent+1, old)
	if s.flight != none {
		s.flightAge = min(s.flightAge+1, old)
	}
	s.resumeable = s.paused
	if s.expiresIn > 0 {
		s.expiresIn--
	}
	s.relayIn--
	if s.relayIn == 0 {
		s.relayIn = l.HalfTick
		if s.heard && !s.noLeader && s.expiresIn > 0 {
			s.expiresIn, s.heard = s.table, false
		}
	}
}
