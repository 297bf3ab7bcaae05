package interop

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
	"github.com/lockkeeper/lockkeeper/test/interop/register"
)

var (
	spinFor = flag.Duration("peers.spin", 500*time.Millisecond, "how long peers go through each lock as fast as they can, at least")
	crashes = flag.Int("peers.crashes", 1, "how often a peer of each make crashes while they do so")
)

// A mix is peers of several makes that share locks.
type mix struct {
	name    string
	members []member
	dirs    []string // where they stand in the queue

	// minTogether is how many must have been inside at once at some time.
	minTogether int
}

type member struct {
	kind peer.Kind
	path string
	as   []peer.As // in turn
}

var mixes = []mix{
	{name: "mutex", minTogether: 1, dirs: []string{"/m"}, members: []member{
		{peer.Lockkeeper, "/m", []peer.As{peer.Mutex}},
		{peer.Lockkeeper, "/m", []peer.As{peer.Mutex}},
		{peer.Curator, "/m", []peer.As{peer.Mutex}},
		{peer.GoZookeeper, "/m", []peer.As{peer.Mutex}},
		{peer.KazooCurator, "/m", []peer.As{peer.Mutex}},
	}},
	// kazoo under its own names cannot share a lock with Curator, but it can with us once it has been
	// told of our names.
	{name: "kazoo", minTogether: 1, dirs: []string{"/k"}, members: []member{
		{peer.Lockkeeper, "/k", []peer.As{peer.Mutex}},
		{peer.KazooPatterns, "/k", []peer.As{peer.Mutex}},
		{peer.GoZookeeper, "/k", []peer.As{peer.Mutex}},
	}},
	{name: "read write", minTogether: 2, dirs: []string{"/rw"}, members: []member{
		{peer.Lockkeeper, "/rw", []peer.As{peer.Read, peer.Write}},
		{peer.Lockkeeper, "/rw", []peer.As{peer.Read}},
		{peer.Curator, "/rw", []peer.As{peer.Read, peer.Read, peer.Write}},
		{peer.Curator, "/rw", []peer.As{peer.Read}},
		{peer.KazooCurator, "/rw", []peer.As{peer.Write, peer.Read}},
	}},
	{name: "semaphore", minTogether: 3, dirs: []string{"/s/locks", "/s/leases"}, members: []member{
		{peer.Lockkeeper, "/s", []peer.As{peer.Permit(3)}},
		{peer.Lockkeeper, "/s", []peer.As{peer.Permit(3)}},
		{peer.Lockkeeper, "/s", []peer.As{peer.Permit(3)}},
		{peer.Curator, "/s", []peer.As{peer.Permit(3)}},
		{peer.Curator, "/s", []peer.As{peer.Permit(3)}},
	}},
	{name: "election", minTogether: 1, dirs: []string{"/e"}, members: []member{
		{peer.Lockkeeper, "/e", []peer.As{peer.Leader}},
		{peer.Lockkeeper, "/e", []peer.As{peer.Leader}},
		{peer.Curator, "/e", []peer.As{peer.Leader}},
		{peer.Curator, "/e", []peer.As{peer.Leader}},
	}},
	{name: "several", minTogether: 1, dirs: []string{"/all-a", "/all-b", "/all-c"}, members: []member{
		{peer.Lockkeeper, "/all-a,/all-b", []peer.As{peer.All}},
		{peer.Curator, "/all-b,/all-c", []peer.As{peer.All}},
		{peer.Lockkeeper, "/all-a,/all-c", []peer.As{peer.All}},
		{peer.GoZookeeper, "/all-b", []peer.As{peer.Mutex}},
		{peer.KazooCurator, "/all-c", []peer.As{peer.Mutex}},
	}},
}

// start starts the peers of a mix.
func (m mix) start(l *testLock) []*peer.Peer {
	l.t.Helper()
	kinds := make([]peer.Kind, len(m.members))
	for i, who := range m.members {
		kinds[i] = who.kind
	}
	return l.startAll(kinds...)
}

// inside is how long a peer stays: those that share must meet. It grows from round to round, because the way in may take many times
// as long on a busy machine.
func (m mix) inside(round int) time.Duration {
	if m.minTogether > 1 {
		return 2 * time.Millisecond << min(round, 5)
	}
	return 0
}

// roundsMax bounds how often peers spin until enough has been seen, on a machine that is busy.
const roundsMax = 20

// enough reports whether all have been let in several times, they have competed, and as many as can
// be inside together have been.
func (m mix) enough(times []int, visits []register.Visit) bool {
	return slices.Min(times) >= 5 && handOvers(visits) >= 5*len(times) && together(visits) >= m.minTogether
}

// together returns how many were inside at once at the most.
func together(visits []register.Visit) int {
	most := 0
	for _, v := range visits {
		most = max(most, v.Together)
	}
	return most
}

// handOvers returns how often a lock went from one to another.
func handOvers(visits []register.Visit) int {
	n := 0
	last := map[string]string{} // name, by place
	for _, v := range visits {
		if name, ok := last[v.Place]; ok && name != v.Name {
			n++
		}
		last[v.Place] = v.Name
	}
	return n
}

// All makes go through one lock as fast as they can. The register judges: an exclusive holder is alone, none
// is let in ahead of one that it had to wait for, and there never are more inside than
// there are permits.
func TestMixedHandOvers(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, addr string) {
		for _, m := range mixes {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				l := newTestLock(t, m.members[0].path, addr, addr)
				peers := m.start(l)
				times := make([]int, len(peers))
				for round := 0; round == 0 || round < roundsMax && !m.enough(times, l.reg.Visits()); round++ {
					for i, p := range peers {
						p.Spin(m.members[i].path, *spinFor, m.inside(round), m.members[i].as...)
					}
					for i, p := range peers {
						times[i] += p.ExpectDone()
					}
				}
				visits := l.reg.Visits()
				t.Logf("%d visits, %d hand-overs, at most %d together", len(visits), handOvers(visits), together(visits))
				if !m.enough(times, visits) {
					t.Errorf("they were let in %d times, want each at least 5 times, and %d together", times, m.minTogether)
				}
				l.empty(m.dirs...)
			})
		}
	})
}

// The same, while one after another is killed, wherever it is, and replaced, and in the end all are.
func TestMixedHandOversWithCrashes(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, addr string) {
		for _, m := range mixes {
			if m.name == "kazoo" {
				continue
			}
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				l := newTestLock(t, m.members[0].path, addr, addr)
				l.timeout = crashTimeout
				peers := m.start(l)
				spin := func(i int) { peers[i].Spin(m.members[i].path, time.Hour, m.inside(0), m.members[i].as...) }
				for i := range peers {
					spin(i)
				}
				l.met(0, peers...)
				victims := m.victims(*crashes)
				counted := len(l.reg.Visits())
				for _, i := range victims {
					l.busy(20)
					time.Sleep(time.Duration(rand.IntN(int(100 * time.Millisecond))))
					peers[i].Kill()
					since := len(l.reg.Visits())
					peers[i] = l.start(m.members[i].kind)
					spin(i)
					l.met(since, peers[i])
				}
				l.busy(20)
				for _, p := range peers {
					p.Kill()
				}
				t.Logf("%d visits, %d hand-overs, %d crashes, %d of them at once",
					len(l.reg.Visits()), handOvers(l.reg.Visits()), len(victims)+len(peers), len(peers))
				if n := handOvers(l.reg.Visits()[counted:]); n < len(victims) { // all had joined by then
					t.Errorf("%d hand-overs between %d crashes", n, len(victims))
				}
				l.empty(m.dirs...)
			})
		}
	})
}

// victims returns members that are to crash, each make so many times.
func (m mix) victims(each int) []int {
	var victims []int
	for range each {
		seen := map[peer.Kind]bool{}
		for _, i := range rand.Perm(len(m.members)) {
			if kind := m.members[i].kind; !seen[kind] {
				seen[kind] = true
				victims = append(victims, i)
			}
		}
	}
	return victims
}

// The first in the queue is granted first, whatever the makes.
func TestMixedFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, addr string) {
		l := newTestLock(t, "/order", addr, addr)
		peers := l.startAll(sharing...)
		for range peers {
			peers = append(peers[1:], peers[0])
			peers[0].Lock(l.path)
			for _, p := range peers[1:] {
				l.join(p)
			}
			for i, p := range peers[1:] {
				peers[i].Unlock()
				p.ExpectHeld() // the register knows if another was faster
			}
			peers[len(peers)-1].Unlock()
		}
		l.empty()
	})
}

// settled is how long a contender that must wait is watched for not being let in.
const settled = 100 * time.Millisecond

// A writer, two readers, a writer, a reader and a writer stand in the queue, all makes in all places: readers
// that stand together are inside together, and none overtakes.
func TestMixedReadersAndWriters(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, addr string) {
		l := newTestLock(t, "/rw-order", addr, addr)
		kinds := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.KazooCurator}
		peers := l.startAll(slices.Concat(kinds, kinds)...)
		for range kinds {
			peers = append(peers[1:], peers[0])
			w1, r2, r3, w4, r5, w6 := peers[0], peers[1], peers[2], peers[3], peers[4], peers[5]
			w1.Take(l.path, peer.Write)
			l.joinAs(r2, peer.Read)
			l.joinAs(r3, peer.Read)
			l.joinAs(w4, peer.Write)
			l.joinAs(r5, peer.Read)
			l.joinAs(w6, peer.Write)
			r2.Quiet(settled)
			w1.Unlock()
			r2.ExpectHeld()
			r3.ExpectHeld()
			w4.Quiet(settled)
			r3.Unlock()
			w4.Quiet(settled)
			r5.Quiet(settled)
			r2.Unlock()
			w4.ExpectHeld()
			r5.Quiet(settled)
			w4.Unlock()
			r5.ExpectHeld()
			w6.Quiet(settled)
			r5.Unlock()
			w6.ExpectHeld()
			w6.Unlock()
		}
		l.empty()
	})
}

// Two permits, six that want one, all makes in all places: two are inside whenever as many want to be,
// never more, and permits are given out in the order of arrival, whichever holder gives one back.
func TestMixedPermits(t *testing.T) {
	t.Parallel()
	permit := peer.Permit(2)
	onBothServers(t, func(t *testing.T, addr string) {
		l := newTestSemaphore(t, "/permits", addr)
		peers := l.startAll(peer.Lockkeeper, peer.Curator, peer.Curator, peer.Lockkeeper, peer.Lockkeeper, peer.Curator)
		for range 3 {
			peers = append(peers[1:], peers[0])
			holders, waiters := slices.Clone(peers[:2]), peers[2:]
			for _, p := range holders {
				p.Take(l.path, permit)
			}
			for _, p := range waiters {
				l.joinAs(p, permit)
			}
			for i, next := range waiters {
				next.Quiet(settled)
				leaver := i % 2 // the one that came last, then the one that came first, …
				holders[leaver].Unlock()
				next.ExpectHeld()
				holders[leaver] = next
			}
			for _, p := range holders {
				p.Unlock()
			}
		}
		l.empty("/permits/leases", "/permits/locks")
	})
}

// Each make in turn crashes: as the holder, and in the middle of the queue, of every kind of lock. On our
// server TestMixedHandOversWithCrashes has to do.
func TestMixedCrashes(t *testing.T) {
	t.Parallel()
	rw := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.KazooCurator}
	both := []peer.Kind{peer.Lockkeeper, peer.Curator}
	locks := []struct {
		name           string
		makes          []peer.Kind
		holder, waiter peer.As // of those that crash
		others         peer.As
	}{
		{"mutex", sharing, peer.Mutex, peer.Mutex, peer.Mutex},
		{"writer before writers", rw, peer.Write, peer.Read, peer.Write},
		{"reader before writers", rw, peer.Read, peer.Write, peer.Write},
		{"writer before readers", rw, peer.Write, peer.Write, peer.Read},
		{"permit", both, peer.Permit(1), peer.Permit(1), peer.Permit(1)},
		{"leader", both, peer.Leader, peer.Leader, peer.Leader},
	}
	addr := apache.Start(t, apache.Options{Tick: tick}).Addr()
	for i, c := range locks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := fmt.Sprint("/crash-", i)
			l := newTestLock(t, path, addr, addr)
			dirs := []string{path}
			if c.name == "permit" {
				l.dir = path + "/locks"
				dirs = []string{path + "/locks", path + "/leases"}
			}
			others := l.startAll(c.makes...)
			l.timeout = crashTimeout
			for _, victim := range c.makes {
				crashed := l.startAll(victim, victim)
				holder, waiter := crashed[0], crashed[1]
				holder.Take(path, c.holder)
				for i, p := range others {
					if i == len(others)/2 {
						l.joinAs(waiter, c.waiter)
					}
					l.joinAs(p, c.others)
				}
				waiter.Kill()
				holder.Kill()
				begin := time.Now()
				for i, p := range others {
					p.ExpectHeld()
					// Both crashed sessions expire, and with them both nodes.
					if d, most := time.Since(begin), crashTimeout+2*tick+5*time.Second; i == 0 && d > most {
						t.Errorf("%s: granted %v after the holder's crash, want at most %v", victim, d, most)
					}
					if c.others != peer.Read {
						p.Unlock()
					}
				}
				if c.others == peer.Read { // all at once
					for _, p := range others {
						p.Unlock()
					}
				}
				l.empty(dirs...)
			}
		})
	}
}

// The line outlives the ensemble's leader. go-zookeeper and kazoo report a lost connection to their
// callers, so only those that ride it out take part.
func TestMixedAcrossALeaderChange(t *testing.T) {
	t.Parallel()
	const cycles = 150
	e := apache.StartEnsemble(t, 3, apache.Options{Tick: tick})
	leader := e.Leader()
	l := newTestLock(t, "/leader", e.Connect(), e.Followers()[0].Addr())
	peers := l.startAll(peer.Lockkeeper, peer.Lockkeeper, peer.Curator)
	for _, p := range peers {
		p.Send("cycle %s %d", l.path, cycles)
	}
	l.busy(cycles)
	leader.Kill()
	e.Leader()
	leader.Launch()
	for _, p := range peers {
		p.Expect("done")
	}
	if n := len(l.reg.Visits()); n != cycles*len(peers) {
		t.Errorf("%d visits, want %d", n, cycles*len(peers))
	}
	l.look = connect(t, e.Leader().Addr(), watcherTimeout, nil)
	l.empty()
}
