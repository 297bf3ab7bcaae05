package interop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
	"github.com/lockkeeper/lockkeeper/test/interop/register"
)

// sharing are the makes that heed each other on one path.
var sharing = []peer.Kind{peer.Lockkeeper, peer.Curator, peer.GoZookeeper, peer.KazooCurator}

const (
	tick           = 300 * time.Millisecond
	sessionTimeout = 2 * time.Second
)

// A line is a lock's directory on a server, with a register to judge those who use it.
type line struct {
	t       *testing.T
	servers string
	path    string
	reg     *register.Register
	look    *raw
	started int
}

func newLine(t *testing.T, path, servers, lookAt string) *line {
	t.Helper()
	return &line{t: t, servers: servers, path: path, reg: openRegister(t),
		look: connect(t, lookAt, watcherTimeout, nil)}
}

// start starts a peer that is to use the lock.
func (l *line) start(k peer.Kind) *peer.Peer {
	l.t.Helper()
	l.started++
	return peer.Start(l.t, k, peer.Config{Servers: l.servers, Timeout: sessionTimeout,
		Name: fmt.Sprintf("%d-%s", l.started, k), Register: l.reg.Addr()})
}

// join lets p ask for the lock and returns when it stands in line.
func (l *line) join(p *peer.Peer) {
	l.t.Helper()
	before := len(l.look.children(l.path))
	p.Send("lock %s", l.path)
	for deadline := time.Now().Add(10 * time.Second); len(l.look.children(l.path)) == before; {
		if time.Now().After(deadline) {
			l.t.Fatal("a peer asked for the lock and does not stand in line")
		}
		time.Sleep(time.Millisecond)
	}
}

// empty checks that nobody is left in line.
func (l *line) empty() {
	l.t.Helper()
	var left []string
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if left = l.look.children(l.path); len(left) == 0 {
			return
		}
	}
	l.t.Errorf("left in line: %q", left)
}

// All makes go through one lock as fast as they can. kazoo under its own names cannot share a lock
// with Curator, but with us it can once it has been told of our names.
func TestMixedHandOvers(t *testing.T) {
	const cycles = 80
	srv := apache.Start(t, apache.Options{Tick: tick})
	for _, kinds := range [][]peer.Kind{
		append(slices.Clone(sharing), peer.Lockkeeper),
		{peer.Lockkeeper, peer.KazooPatterns, peer.GoZookeeper},
	} {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			l := newLine(t, fmt.Sprintf("/mixed-%d", len(kinds)), srv.Addr(), srv.Addr())
			var peers []*peer.Peer
			for _, k := range kinds {
				peers = append(peers, l.start(k))
			}
			begin := time.Now()
			for _, p := range peers {
				p.Send("cycle %s %d", l.path, cycles)
			}
			for _, p := range peers {
				p.Expect("done")
			}
			visits := l.reg.Visits()
			if want := cycles * len(peers); len(visits) != want {
				t.Errorf("%d visits, want %d", len(visits), want)
			}
			handOvers := 0
			for i := 1; i < len(visits); i++ {
				if visits[i].Name != visits[i-1].Name {
					handOvers++
				}
			}
			t.Logf("%d visits, %d of them hand-overs, in %v", len(visits), handOvers, time.Since(begin))
			if handOvers < len(visits)/2 {
				t.Errorf("%d hand-overs in %d visits: hardly anybody competed", handOvers, len(visits))
			}
			l.empty()
		})
	}
}

// Whoever stands in line first is first, whatever the makes.
func TestMixedFirstComeFirstServed(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	l := newLine(t, "/order", srv.Addr(), srv.Addr())
	var peers []*peer.Peer
	for _, k := range sharing {
		peers = append(peers, l.start(k))
	}
	for range peers {
		peers = append(peers[1:], peers[0])
		peers[0].Lock(l.path)
		for _, p := range peers[1:] {
			l.join(p)
		}
		for i, p := range peers[1:] {
			peers[i].Unlock()
			p.ExpectHeld() // the register knows if somebody else was faster
		}
		peers[len(peers)-1].Unlock()
	}
	l.empty()
}

// Each make in turn crashes: as the holder, and in the middle of the line.
func TestMixedCrashes(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	for _, victim := range sharing {
		t.Run(string(victim), func(t *testing.T) {
			l := newLine(t, "/crash-"+string(victim), srv.Addr(), srv.Addr())
			holder, waiter := l.start(victim), l.start(victim)
			holder.Lock(l.path)
			var others []*peer.Peer
			for i, k := range sharing {
				if i == len(sharing)/2 {
					l.join(waiter)
				}
				others = append(others, l.start(k))
				l.join(others[i])
			}
			waiter.Kill()
			holder.Kill()
			begin := time.Now()
			for i, p := range others {
				p.ExpectHeld()
				// Both crashed sessions expire, and with them both nodes.
				if d, most := time.Since(begin), sessionTimeout+2*tick+time.Second; i == 0 && d > most {
					t.Errorf("granted %v after the holder's crash, want at most %v", d, most)
				}
				p.Unlock()
			}
			for _, p := range others {
				p.Quit()
			}
			l.empty()
		})
	}
}

// The line outlives the ensemble's leader. go-zookeeper and kazoo report a lost connection to their
// callers, so only those who ride it out take part.
func TestMixedAcrossALeaderChange(t *testing.T) {
	const cycles = 150
	e := apache.StartEnsemble(t, 3, apache.Options{Tick: tick})
	leader := e.Leader()
	l := newLine(t, "/leader", e.Connect(), e.Followers()[0].Addr())
	peers := []*peer.Peer{l.start(peer.Lockkeeper), l.start(peer.Lockkeeper), l.start(peer.Curator)}
	for _, p := range peers {
		p.Send("cycle %s %d", l.path, cycles)
	}
	for len(l.reg.Visits()) < cycles {
		_, changed := l.reg.Inside()
		<-changed
	}
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
