package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
)

// What changes under living sessions. Two ticks stay below the least of the session timeouts: with less, exclusion is not
// promised (docs/guarantees.md).
var (
	ticks    = []time.Duration{200 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond}
	timeouts = []time.Duration{3 * time.Second, 5 * time.Second, 8 * time.Second}
)

// timeoutAsked is what sessions ask for: more than they get, mostly, and at each reconnect they may get another timeout.
const timeoutAsked = 8 * time.Second

// settings returns the lines of zoo.cfg for a tick and for the longest session timeout.
func settings(tick, longest time.Duration) map[string]string {
	return map[string]string{
		"tickTime":          fmt.Sprint(tick.Milliseconds()),
		"maxSessionTimeout": fmt.Sprint(longest.Milliseconds()),
		"syncLimit":         fmt.Sprint(max(2, int(time.Second/tick))), // see ensembleConfig
		"cnxTimeout":        "1000",
	}
}

// change restarts all servers one by one, with other settings.
func (r *run) change(rng *rand.Rand) {
	r.t.Helper()
	r.tick = ticks[rng.IntN(len(ticks))]
	changed := settings(r.tick, timeouts[rng.IntN(len(timeouts))])
	fmt.Printf("change: tickTime=%s maxSessionTimeout=%s\n", changed["tickTime"], changed["maxSessionTimeout"])
	for _, i := range rng.Perm(serversCount) {
		s := r.rig.ensemble().Servers[i]
		s.Kill()
		s.Configure(changed)
		s.Launch()
		s.AwaitServing()
	}
	r.faults++
}

// pauseAndKill stops a client for about half of its session timeout while it holds locks and reaches its follower only. As
// soon as the client goes on, and its first request may have been answered, the follower is killed: the leader may not have
// heard of the request. The locks pass on when the leader has expired the session. It reports whether there was such a client.
func (r *run) pauseAndKill(rng *rand.Rand) bool {
	r.t.Helper()
	e := r.rig.ensemble()
	leader := e.Leader()
	var p *process
	var follower *apache.Server
	for _, i := range rng.Perm(len(r.clients)) {
		at, _ := r.clients[i].last(dialed)
		for _, s := range e.Servers {
			if s != leader && s.Addr() == at.Text {
				p, follower = r.clients[i], s
			}
		}
	}
	if p == nil {
		r.reach(r.clients[0], leader, "all") // so that it goes to a follower
		time.Sleep(timeouts[0])
		r.reach(r.clients[0], leader, "pass")
		return false
	}
	for _, s := range e.Servers {
		if s != follower {
			r.reach(p, s, "all")
		}
	}
	p.tell("cling on")
	r.awaitHold(p)
	at, _ := p.last(granted)
	timeout := time.Duration(at.Value)
	pause := timeout*4/10 + time.Duration(rng.Int64N(int64(timeout/5)))
	answered := time.Duration(rng.Int64N(int64(r.tick / 2)))
	fmt.Printf("client %d of %v stops for %v; %v later its follower is killed\n", p.config.ID, timeout, pause, answered)
	r.must(p.Freeze())
	time.Sleep(pause)
	r.must(p.Thaw())
	time.Sleep(answered)
	follower.Kill()
	time.Sleep(timeout + 2*r.tick)
	p.tell("cling off")
	for _, s := range e.Servers {
		r.reach(p, s, "pass")
	}
	follower.Launch()
	r.settle()
	r.faults += 2
	return true
}

// reach says which of a client's and a server's messages to each other are stalled.
func (r *run) reach(p *process, s *apache.Server, stalled string) {
	p.tell("flow %s %s", s.Addr(), stalled)
}

// awaitHold waits until a client holds a lock that it clings to.
func (r *run) awaitHold(p *process) {
	r.t.Helper()
	for deadline := time.Now().Add(progressTimeout); !p.holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("client %d holds no lock within %v", p.config.ID, progressTimeout)
		}
	}
	time.Sleep(2 * r.tick) // its heartbeats are regular, and it may get another lock
}
