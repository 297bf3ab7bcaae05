package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A fault is something that goes wrong for a while.
type fault string

// The faults. Of servers:
const (
	killLeader       fault = "kill-leader" // kill -9, and a start
	killFollower     fault = "kill-follower"
	freezeLeader     fault = "freeze-leader" // SIGSTOP, and SIGCONT
	freezeFollower   fault = "freeze-follower"
	restartAll       fault = "restart-all"        // kill -9 of all three at once
	wipeFollower     fault = "wipe-follower"      // its disk is lost
	wipeLeader       fault = "wipe-leader"        // when another one leads
	isolateLeader    fault = "isolate-leader"     // from the other servers and all clients
	isolateFollower  fault = "isolate-follower"   //
	leaderAndSome    fault = "leader-with-some"   // the leader with half of the clients on one side, all others on the other
	followerAndSome  fault = "follower-with-some" //
	requestsVanish   fault = "requests-vanish"    // on the way from all clients to one server
	answersVanish    fault = "answers-vanish"     // on the way back
	leaderIsNotHeard fault = "leader-is-not-heard"
	leaderHearsNone  fault = "leader-hears-none" // of the servers; netns only, as the one before
	packetsVanish    fault = "packets-vanish"    // some of all; netns only
	slow             fault = "slow"              // everything that clients are answered, or that hosts send
)

// Of clients:
const (
	freezeClient fault = "freeze-client" // SIGSTOP until its session has expired, or not so long
	killClient   fault = "kill-client"   // kill -9, and another one starts
)

var (
	anyRig = []fault{killLeader, killFollower, freezeLeader, freezeFollower, restartAll, wipeFollower, wipeLeader,
		isolateLeader, isolateFollower, leaderAndSome, followerAndSome, requestsVanish, answersVanish, slow}
	packetsOnly  = []fault{leaderIsNotHeard, leaderHearsNone, packetsVanish}
	clientFaults = []fault{freezeClient, killClient}
)

// A step of a schedule is a fault of the servers or the network, and perhaps of clients at the same time.
type step struct {
	calm    time.Duration // before
	faults  []fault
	length  time.Duration
	which   int // of several servers, modulo their number
	clients int // the one that is concerned, or the first of those that are, modulo their number
	percent int // of packets that vanish
}

func (s step) String() string {
	names := make([]string, len(s.faults))
	for i, f := range s.faults {
		names[i] = string(f)
	}
	return fmt.Sprintf("%s for %v after %v", strings.Join(names, "+"), s.length, s.calm)
}

// Limits of a step.
const (
	calmMin, calmMax   = 500 * time.Millisecond, 2 * time.Second
	lengthMin          = 500 * time.Millisecond
	percentMin         = 5
	percentMax         = 40
	clientFaultOneIn   = 2
	scheduleResolution = time.Millisecond
)

// A schedule draws steps from a seed, in rounds in which each fault comes once.
type schedule struct {
	rng    *rand.Rand
	faults []fault
	round  []fault
}

func newSchedule(seed uint64, faults []fault) *schedule {
	return &schedule{rng: rand.New(rand.NewPCG(seed, 0)), faults: faults}
}

func (s *schedule) next() step {
	if len(s.round) == 0 {
		s.round = slices.Clone(s.faults)
		s.rng.Shuffle(len(s.round), func(i, j int) { s.round[i], s.round[j] = s.round[j], s.round[i] })
	}
	between := func(low, high time.Duration) time.Duration {
		return (low + time.Duration(s.rng.Int64N(int64(high-low)))).Round(scheduleResolution)
	}
	st := step{
		calm:    between(calmMin, calmMax),
		faults:  s.round[:1:1],
		length:  between(lengthMin, lengthMax),
		which:   s.rng.IntN(1 << 16),
		clients: s.rng.IntN(1 << 16),
		percent: percentMin + s.rng.IntN(percentMax-percentMin),
	}
	s.round = s.round[1:]
	if s.rng.IntN(clientFaultOneIn) == 0 {
		f := clientFaults[s.rng.IntN(len(clientFaults))]
		st.faults = append(st.faults, f)
		if f == freezeClient && s.rng.IntN(2) == 0 {
			st.length = between(sessionTimeout-tick, sessionTimeout+2*tick) // when its session is about to expire
		}
	}
	return st
}
