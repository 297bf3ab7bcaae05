package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/netns"
)

const (
	// lengthMax is how long a fault lasts at most: long enough for sessions to expire.
	lengthMax = 2 * sessionTimeout
	// epoch bounds the length of a lock's history, and with it the work to judge it.
	epoch = 20 * time.Second
	// progressTimeout is how long it may take after a fault until all locks are granted again, on a
	// machine that is busy with other things.
	progressTimeout = 2 * time.Minute
	// checkTimeout bounds the search for an order that explains one lock's history.
	checkTimeout = time.Minute
)

var keys = []string{"a", "b", unfairKey}

// A run is clients that take turns, and what they did.
type run struct {
	t        testing.TB
	name     string // in the names of files
	rig      rig
	register *register
	clients  []*process // that live, by host
	dead     []*process
	begin    int64
	faults   int
	tick     time.Duration // of the servers
}

// newRun starts an ensemble and clients that ask for a session timeout, on hosts of their own if there is a network for them.
func newRun(t testing.TB, network *netns.Network, name string, seed uint64, timeout time.Duration, config map[string]string) *run {
	t.Helper()
	r := &run{t: t, name: name, tick: tick}
	living := func() []*process { return r.clients }
	if network != nil {
		r.rig = newNetRig(t, network, living, config)
	} else {
		r.rig = newProxyRig(t, living, config)
	}
	r.openRegister(r.rig.registerHost())
	for i, h := range r.rig.clientHosts() {
		vouch := client.VouchSync
		if i%2 == 1 {
			vouch = client.VouchWrite
		}
		r.startClient(h, clientConfig{Vouch: vouch, Timeout: timeout, Keys: keys, Epoch: epoch, Seed: seed + uint64(i),
			Servers: servers(strings.Split(r.rig.ensemble().Connect(), ","), i)})
	}
	r.begin = now()
	r.awaitProgress()
	return r
}

func (r *run) openRegister(host string) {
	var err error
	if r.register, err = openRegister(host); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.register.close)
}

// startClient starts a client in place of the one that was on the host before, if there was one.
func (r *run) startClient(h host, c clientConfig) {
	r.t.Helper()
	c.ID = int64(len(r.clients) + len(r.dead) + 1)
	c.Register = r.register.ln.Addr().String()
	p := startClient(r.t, h, c)
	if h.number < len(r.clients) {
		r.dead = append(r.dead, r.clients[h.number])
		r.clients[h.number] = p
	} else {
		r.clients = append(r.clients, p)
	}
}

// awaitProgress waits until every lock has been granted once more.
func (r *run) awaitProgress() {
	r.t.Helper()
	since := now()
	for deadline := time.Now().Add(progressTimeout); ; time.Sleep(50 * time.Millisecond) {
		seen := map[string]bool{}
		for _, p := range r.clients {
			for _, k := range p.grantedSince(since) {
				seen[k] = true
			}
		}
		if len(seen) == len(keys) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the locks granted within %v: %v of %v", progressTimeout, seen, keys)
		}
	}
}

// torment lets steps of a schedule happen until the time is over.
func (r *run) torment(s *schedule, length time.Duration) {
	r.t.Helper()
	for began := time.Now(); time.Since(began) < length; {
		st := s.next()
		fmt.Printf("fault at %5.1fs: %v\n", time.Since(began).Seconds(), st)
		time.Sleep(st.calm)
		undo := r.inject(st)
		time.Sleep(st.length)
		for _, u := range slices.Backward(undo) {
			u()
		}
		r.settle()
		r.faults += len(st.faults)
	}
	r.awaitProgress()
}

// settle waits until all servers serve.
func (r *run) settle() {
	r.t.Helper()
	for _, s := range r.rig.ensemble().Servers {
		s.AwaitServing()
	}
	r.rig.ensemble().Leader()
}

// inject lets the faults of a step happen, and returns what ends them, the last one first.
func (r *run) inject(st step) (undo []func()) {
	for _, f := range slices.Backward(st.faults) { // those of clients end when the network is well again
		undo = append(undo, r.fault(f, st))
	}
	return undo
}

// fault lets one fault happen and returns what ends it.
func (r *run) fault(f fault, st step) func() {
	e := r.rig.ensemble()
	leader := e.Leader()
	followers := slices.DeleteFunc(slices.Clone(e.Servers), func(s *apache.Server) bool { return s == leader })
	follower := followers[st.which%len(followers)]
	number := func(s *apache.Server) int { return slices.Index(e.Servers, s) }
	victim := r.victim(st.clients)
	some, others := []int{victim, (victim + 1) % len(r.clients)}, []int(nil)
	for i := range r.clients {
		if !slices.Contains(some, i) {
			others = append(others, i)
		}
	}
	isolate := func(s *apache.Server) func() {
		r.rig.partition(group{r.without(s), slices.Concat(some, others)})
		return r.rig.heal
	}
	split := func(s *apache.Server) func() {
		r.rig.partition(group{[]int{number(s)}, some}, group{r.without(s), others})
		return r.rig.heal
	}
	switch f {
	case killLeader, wipeLeader:
		leader.Kill()
		if f == wipeLeader {
			e.Leader() // before the others have one, what they know of the last transactions counts
			leader.Wipe()
		}
		return leader.Launch
	case killFollower, wipeFollower:
		follower.Kill()
		if f == wipeFollower {
			follower.Wipe()
		}
		return follower.Launch
	case restartAll:
		for _, s := range e.Servers {
			s.Kill()
		}
		return func() {
			for _, s := range e.Servers {
				s.Launch()
			}
		}
	case freezeLeader:
		leader.Freeze()
		return leader.Thaw
	case freezeFollower:
		follower.Freeze()
		return follower.Thaw
	case isolateLeader:
		return isolate(leader)
	case isolateFollower:
		return isolate(follower)
	case leaderAndSome:
		return split(leader)
	case followerAndSome:
		return split(follower)
	case requestsVanish, answersVanish:
		r.rig.vanish(st.which%len(e.Servers), f == requestsVanish)
	case leaderIsNotHeard, leaderHearsNone:
		r.rig.mute(number(leader), f == leaderIsNotHeard)
	case packetsVanish:
		r.rig.lose(st.percent)
	case slow:
		r.rig.slow(time.Duration(st.percent) * 5 * time.Millisecond)
	case freezeClient:
		p := r.clients[victim]
		r.must(p.Freeze())
		return func() { r.must(p.Thaw()) }
	case killClient:
		p := r.clients[victim]
		p.end()
		return func() { r.startClient(p.host, p.config) }
	default:
		r.t.Fatalf("no such fault: %s", f)
	}
	return r.rig.heal
}

// victim returns the client that a fault is for: one that has a lock, if there is one, for every other
// number, so that something happens.
func (r *run) victim(which int) int {
	i := which % len(r.clients)
	if which/len(r.clients)%2 == 0 {
		return i
	}
	for range r.clients {
		if r.clients[i].holds() {
			return i
		}
		i = (i + 1) % len(r.clients)
	}
	return i
}

// without returns the places of all servers but one.
func (r *run) without(s *apache.Server) []int {
	var rest []int
	for i, other := range r.rig.ensemble().Servers {
		if other != s {
			rest = append(rest, i)
		}
	}
	return rest
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// history ends the clients and returns what they did.
func (r *run) history() *history {
	r.t.Helper()
	var wg sync.WaitGroup
	for _, p := range r.clients {
		wg.Go(func() {
			if !p.stop(progressTimeout) {
				r.t.Errorf("client %d did not come to an end", p.config.ID)
			}
		})
	}
	wg.Wait()
	h := &history{}
	for i, p := range slices.Concat(r.dead, r.clients) {
		h.add(i, p.events)
	}
	return h
}

// judge returns the violations in a history, and draws those that can be drawn in a folder.
func judge(t testing.TB, h *history, folder, name string) []string {
	t.Helper()
	var found []string
	for _, o := range h.overlaps() {
		found = append(found, o.String())
	}
	for _, m := range []struct {
		name  string
		model porcupine.Model
		ops   map[string][]porcupine.Operation
	}{{"lock", lockModel, h.locks()}, {"register", registerModel, h.registers()}} {
		for key, ops := range m.ops {
			result, info := porcupine.CheckOperationsVerbose(m.model, ops, checkTimeout)
			switch result {
			case porcupine.Unknown:
				t.Errorf("%s of %s: undecided after %v: %d operations", m.name, key, checkTimeout, len(ops))
			case porcupine.Illegal:
				path := filepath.Join(folder, fmt.Sprintf("chaos-%s-%s%s.html", name, m.name, strings.ReplaceAll(key, "/", "-")))
				found = append(found, fmt.Sprintf("%s of %s: no order explains its history: %s", m.name, key, path))
				if err := draw(m.model, info, path); err != nil {
					t.Error(err)
				}
			}
		}
	}
	return found
}

func draw(model porcupine.Model, info porcupine.LinearizationInfo, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return porcupine.VisualizePath(model, info, path)
}
