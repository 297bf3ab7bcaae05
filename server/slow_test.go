package server

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// readEight asks for eight times a mebibyte at once, and returns the request and how many bytes its answer has, in its frame.
func (p *peer) readEight() (f []byte, answerBytes int) {
	const n, bytes = 8, 1<<20 - 200
	p.call(wire.OpCreate, &wire.CreateRequest{Path: "/big", Data: make([]byte, bytes), ACL: zk.OpenACL()}, nil)
	q := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetData, Path: "/big"}}, n)}
	return frameOf(1, wire.OpMultiRead, &q), n * bytes
}

// take takes so many bytes in so many equal parts, one a second, and reports whether they came.
func (p *peer) take(bytes, parts int, also func()) bool {
	for range parts {
		time.Sleep(time.Second)
		if _, err := io.CopyN(io.Discard, p.in, int64(bytes/parts)); err != nil {
			return false
		}
		also()
	}
	return true
}

// A client may take its time for a large answer, as long as it is heard meanwhile.
func TestPingsAreHeardWhileALargeAnswerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		ask, bytes := p.readEight()
		p.raw(ask)
		ping := frameOf(wire.XidPing, wire.OpPing, nil)
		if !p.take(bytes, int(5*p.timeout/time.Second), func() { p.nc.Write(ping) }) {
			t.Error("the session expired although its client sent pings")
		}
	})
}

// A client that takes nothing and is not heard loses its session, however large its answer is.
func TestALargeAnswerKeepsNoSession(t *testing.T) {
	for _, asked := range []int{1, 20} { // what is asked for at once
		synctest.Test(t, func(t *testing.T) {
			r := start(t)
			p := r.connect("c")
			ask, _ := p.readEight()
			go p.nc.Write(slices.Repeat(ask, asked))
			time.Sleep(p.timeout + 2*testTick)
			if n := r.Stats().Sessions; n != 0 {
				t.Errorf("the session lives %v after %d requests", p.timeout+2*testTick, asked)
			}
		})
	}
}

// A client is not read from while much waits for it. What it takes then shows that it lives.
func TestTakingAnswersIsASignOfLifeWhereNoneIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		ask, bytes := p.readEight()
		go p.nc.Write(slices.Repeat(ask, 5))
		if !p.take(5*bytes, int(10*p.timeout/time.Second), func() {}) {
			t.Error("the session expired although its client took its answers, and could not be heard")
		}
		time.Sleep(p.timeout + 2*testTick)
		if n := r.Stats().Sessions; n != 0 {
			t.Error("the session lives though its client takes nothing any more")
		}
	})
}

// What ends a connection does not cut off the large answer before it.
func TestALargeAnswerIsTakenSlowlyBeforeTheEnd(t *testing.T) {
	for what, end := range map[string]func(r *rig, p *peer){
		"closeSession":  func(_ *rig, p *peer) { p.raw(frameOf(2, wire.OpCloseSession, nil)) },
		"end of input":  func(_ *rig, p *peer) { p.nc.(interface{ CloseWrite() error }).CloseWrite() },
		"a wrong frame": func(_ *rig, p *peer) { p.raw(make([]byte, 12)) },
		"Shutdown":      func(r *rig, p *peer) { go r.Shutdown(r.t.Context()) },
		"create, closed": func(_ *rig, p *peer) {
			p.raw(append(frameOf(2, wire.OpCreate, createReq("/n", zk.Persistent)), frameOf(3, wire.OpCloseSession, nil)...))
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				p := r.connect("c")
				ask, bytes := p.readEight()
				p.raw(ask)
				synctest.Wait()
				end(r, p)
				if !p.take(bytes, int(5*p.timeout/time.Second), func() {}) {
					t.Fatal("the answer does not come")
				}
				if _, err := io.Copy(io.Discard, p.in); err != nil {
					t.Errorf("what follows: %v", err)
				}
			})
		})
	}
}

// Answers of all sizes at the border between the two that send leave whole and in order.
func TestAnswersAroundTheSizeThatIsLeftToRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		const n = 40
		var b []byte
		for i := range n {
			path := fmt.Sprint("/", i)
			data := make([]byte, outputLeft-1000+i*50)
			if code := p.call(wire.OpCreate, &wire.CreateRequest{Path: path, Data: data, ACL: zk.OpenACL()}, nil); code != zk.OK {
				t.Fatal(code)
			}
			b = append(b, frameOf(int32(2*i), wire.OpGetData, &wire.WatchRequest{Path: path})...)
			b = append(b, frameOf(int32(2*i+1), wire.OpExists, &wire.WatchRequest{Path: path})...)
		}
		go p.nc.Write(b)
		for i := range 2 * n {
			if a := p.receive(); a.Xid != int32(i) || a.Err != zk.OK {
				t.Fatalf("answer to %d, %v, want the one to %d", a.Xid, a.Err, i)
			}
		}
	})
}

// A session does not expire because the server was busy: while the state is locked, readers wait for it, and do not hear
// their clients.
func TestNothingExpiresBecauseTheStateWasLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("heard late")
		r.connect("silent")
		time.Sleep(p.timeout + testTick - time.Millisecond)
		r.lockState()
		r.unlockState(r.now() - testTick)
		time.Sleep(testTick - time.Millisecond)
		p.ping()
		if n := r.Stats().Sessions; n != 2 {
			t.Errorf("%d sessions in the tick behind the lock, want 2", n)
		}
		time.Sleep(2 * time.Millisecond)
		p.ping()
		if n := r.Stats().Sessions; n != 1 {
			t.Errorf("%d sessions after it, want the one that was heard", n)
		}
		time.Sleep(p.timeout + 2*testTick)
		if n := r.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions in the end, want none", n)
		}
	})
}
