package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// TestF44 lets clients come, create ephemerals and go, crashes the disk at a random moment, and
// compares what is there afterwards with what was acknowledged.
func TestF44_AfterACrashNoEphemeralWithoutSessionAndNothingAcknowledgedIsLost(t *testing.T) {
	for round := range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crashRound(t, seed) })
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func crashRound(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := start(t, func(o *Options) { o.SnapCount = 20 + rnd.IntN(100) })

	var mu sync.Mutex
	sessions := make(map[string]int64) // owner of each acknowledged ephemeral
	closing := make(map[int64]bool)    // close sent: they may be gone
	persistent := make(map[string]bool)
	crashAt := int64(100 + rnd.IntN(700))
	crash := make(chan struct{})
	r.fs.SetFault(func(_ vfs.Op, _ string, nth int64) error {
		if nth == crashAt {
			close(crash)
		}
		if nth > crashAt {
			return errors.New("no power")
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := 0; ; n++ {
				p, ok := r.tryConnect(fmt.Sprint("c", i))
				if !ok {
					return
				}
				for k := range 3 {
					path, mode := fmt.Sprintf("/e-%d-%d-%d", i, n, k), zk.Ephemeral
					if k == 2 {
						path, mode = fmt.Sprintf("/p-%d-%d", i, n), zk.Persistent
					}
					if !p.tryCall(wire.OpCreate, createReq(path, mode)) {
						return
					}
					mu.Lock()
					if mode == zk.Ephemeral {
						sessions[path] = p.session
					} else {
						persistent[path] = true
					}
					mu.Unlock()
				}
				if n%2 == 0 {
					mu.Lock()
					closing[p.session] = true
					mu.Unlock()
					if !p.tryCall(wire.OpCloseSession, nil) {
						return
					}
				}
				p.nc.Close()
			}
		})
	}
	<-crash
	wg.Wait()
	if err := r.Close(); err == nil {
		t.Error("the server closed without an error on a disk without power")
	}
	r.fs = r.fs.CrashClone(rnd)
	r.open()
	p := r.connect("judge")
	have := p.children("/")
	for path, session := range sessions {
		if !slices.Contains(have, path[1:]) && !closing[session] {
			t.Errorf("seed %d: acknowledged ephemeral %s is lost", seed, path)
		}
	}
	for path := range persistent {
		if !slices.Contains(have, path[1:]) {
			t.Errorf("seed %d: acknowledged %s is lost", seed, path)
		}
	}
	live := make(map[int64]bool)
	r.sessions.Lock()
	for id := range r.sessions.table.All() {
		live[id] = true
	}
	r.sessions.Unlock()
	for _, name := range have {
		if !strings.HasPrefix(name, "e-") {
			continue
		}
		var st wire.StatResponse
		p.call(wire.OpExists, &wire.WatchRequest{Path: "/" + name}, &st)
		if !live[st.Stat.EphemeralOwner] {
			t.Errorf("seed %d: ephemeral /%s of session %x, which does not exist", seed, name, st.Stat.EphemeralOwner)
		}
	}
	time.Sleep(time.Minute) // all but the judge's session expire, which is closed by now as well
	if n := r.Stats().Ephemerals; n != 0 {
		t.Errorf("seed %d: %d ephemerals are left when all sessions are over", seed, n)
	}
}

// tryConnect and tryCall are for clients that outlive their server.
func (r *rig) tryConnect(label string) (*peer, bool) {
	nc, err := r.net.DialAs(r.t.Context(), label, "zk")
	if err != nil {
		return nil, false
	}
	p := newPeer(r.t, nc)
	if wire.WriteRecord(nc, &wire.ConnectRequest{Timeout: 5000}) != nil {
		return nil, false
	}
	b, err := wire.ReadFrame(p.in, nil, 1<<20)
	var a wire.ConnectResponse
	if err != nil || wire.Unmarshal(b, &a) != nil {
		return nil, false
	}
	p.session, p.password = a.SessionID, a.Password
	return p, true
}

func (p *peer) tryCall(op wire.Op, q wire.Record) bool {
	p.xid++
	if _, err := p.nc.Write(frameOf(p.xid, op, q)); err != nil {
		return false
	}
	b, err := wire.ReadFrame(p.in, nil, 1<<20)
	var h wire.ReplyHeader
	return err == nil && wire.Unmarshal(b, &h) == nil && h.Err == zk.OK
}
