package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A punctual is a fake that says in each answer when its last byte has been sent, and notes the same of each event.
// Now and then it stops in the middle of what it sends.
type punctual struct {
	cfg  *tls.Config
	seed uint64
	sent sync.Map // path of an event → time.Time
	busy sync.WaitGroup
}

// A halting stops in the middle of the next write.
type halting struct {
	net.Conn
	pause time.Duration
}

func (h *halting) Write(b []byte) (int, error) {
	half := len(b) / 2
	if h.pause > 0 {
		h.Conn.Write(b[:half])
		time.Sleep(h.pause)
		h.pause, b = 0, b[half:] // TLS writes a long answer in pieces
	} else {
		half = 0
	}
	n, err := h.Conn.Write(b)
	return half + n, err
}

func (u *punctual) handle(p *peer) {
	nc := &halting{Conn: p.nc}
	p.nc = nc
	if u.cfg != nil {
		p.nc = tls.Server(nc, u.cfg)
	}
	if !p.open() {
		return
	}
	turn := make(chan struct{}, 1)
	pauses, delays := rand.New(rand.NewPCG(u.seed, uint64(p.number))), rand.New(rand.NewPCG(^u.seed, uint64(p.number)))
	say := func(send func(at time.Time)) {
		turn <- struct{}{}
		nc.pause = 0
		if pauses.IntN(6) == 0 {
			nc.pause = time.Duration(pauses.IntN(30)) * time.Millisecond
		}
		send(time.Now().Add(nc.pause))
		<-turn
	}
	event := func(path string, after time.Duration) {
		u.busy.Go(func() {
			time.Sleep(after)
			say(func(at time.Time) {
				u.sent.Store(path, at)
				p.event(zk.NodeDataChanged, path)
			})
		})
	}
	p.serve(func(h heard) bool {
		var q wire.WatchRequest
		say(func(at time.Time) {
			var record wire.Record
			switch h.Op {
			case wire.OpGetData:
				wire.Unmarshal(h.Body, &q)
				data := make([]byte, 20)
				if strings.HasPrefix(q.Path, "/long") {
					u.sent.Store(q.Path, at)
					data = make([]byte, longBytes)
				}
				strconv.AppendInt(data[:0], at.UnixNano(), 10)
				record = &wire.DataResponse{Data: data}
			case wire.OpSetData:
				record = &wire.StatResponse{Stat: zk.Stat{Ctime: at.UnixNano()}}
			case wire.OpAddWatch:
				var a wire.AddWatchRequest
				wire.Unmarshal(h.Body, &a)
				q = wire.WatchRequest{Path: a.Path, Watch: true}
			case wire.OpSync:
				record = &wire.PathRecord{Path: "/"}
			case wire.OpMulti:
				record = &wire.MultiResponse{Results: []wire.MultiResult{{Op: wire.OpCheck}}}
			}
			p.answer(h.Xid, zk.OK, record)
		})
		if q.Watch {
			event(q.Path, time.Duration(delays.IntN(80))*time.Millisecond)
		}
		if h.Op == wire.OpCloseSession {
			nc.Conn.Close() // and no alert of TLS ahead of it
		}
		return true
	})
}

// A mixed is many callers of one session at a time.
type mixed struct {
	t      *testing.T
	s      *client.Session
	u      *punctual
	ctx    context.Context
	calm   bool         // nothing breaks
	broken atomic.Bool  // times mean nothing any more
	lost   atomic.Int64 // when a connection was cut last
	paths  atomic.Int64
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// came checks that something that was sent then came without any delay to the goroutine that has waited since began.
func (m *mixed) came(what string, began, sent time.Time) {
	if late := time.Since(later(began, sent)); late > 0 && !m.broken.Load() {
		m.t.Errorf("%s came %v late", what, late)
	}
}

// failed checks that a call has failed when it had to.
func (m *mixed) failed(what string, ctx context.Context, began time.Time, err error) {
	deadline, _ := ctx.Deadline()
	switch {
	case m.broken.Load():
	case errors.Is(err, context.DeadlineExceeded):
		m.came("the end of the context of "+what, began, deadline)
	case errors.Is(err, zk.ErrConnectionLoss) && !m.calm:
		m.came("the loss of "+what, began, time.Unix(0, m.lost.Load()))
	default:
		m.t.Errorf("%s: %v", what, err)
	}
}

func (m *mixed) get(ctx context.Context, path string) {
	began := time.Now()
	data, _, err := m.s.Get(ctx, path)
	var size *client.SizeError
	switch {
	case errors.As(err, &size):
		at, _ := m.u.sent.Load(path)
		m.came("an answer that is too long", began, at.(time.Time))
	case err != nil:
		m.failed("get", ctx, began, err)
	default:
		n, err := strconv.ParseInt(string(data[:bytes.IndexByte(data, 0)]), 10, 64)
		must(m.t, err)
		m.came("an answer to get", began, time.Unix(0, n))
	}
}

func (m *mixed) pipeline(ctx context.Context, r *rand.Rand) {
	p := m.s.Pipeline()
	var sets []*client.Pending[zk.Stat]
	for range 1 + r.IntN(4) {
		sets = append(sets, p.Set("/a", nil, -1))
	}
	p.Send(ctx)
	for _, k := range sets {
		began, ctx := time.Now(), ctx
		switch r.IntN(4) {
		case 0:
			continue // no goroutine waits for it
		case 1:
			select {
			case <-k.Done():
			case <-ctx.Done():
			}
		case 2:
			var cancel func()
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(20))*time.Millisecond)
			defer cancel()
		}
		if stat, err := k.Wait(ctx); err != nil {
			m.failed("set", ctx, began, err)
		} else {
			m.came("the answer to set", began, time.Unix(0, stat.Ctime))
		}
	}
}

func (m *mixed) watch(ctx context.Context, r *rand.Rand) {
	path := fmt.Sprint("/w", m.paths.Add(1))
	_, _, w, err := m.s.WatchGet(ctx, path)
	if err != nil {
		return
	}
	defer w.Cancel()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(150))*time.Millisecond)
	defer cancel()
	if r.IntN(2) == 0 {
		m.s.Listen(ctx, w)
	}
	if !w.Fired() {
		select {
		case <-w.Done():
		case <-ctx.Done():
		}
	}
	m.told("event", w.Fired(), path, w.Conn(), began)
}

func (m *mixed) persistent(ctx context.Context, r *rand.Rand) {
	path := fmt.Sprint("/s", m.paths.Add(1))
	st, err := m.s.AddWatch(ctx, path, r.IntN(2) == 0)
	if err != nil {
		return
	}
	defer st.Close()
	began := time.Now()
	state, _ := m.s.State()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(150))*time.Millisecond)
	defer cancel()
	ev, err := st.Next(ctx)
	if !ev.Gap {
		m.told("event of a persistent watch", err == nil, path, state.Conn, began)
	}
}

// told checks that an event came in time, or that it could not come.
func (m *mixed) told(what string, came bool, path string, conn uint64, began time.Time) {
	at, sent := m.u.sent.Load(path)
	switch state, _ := m.s.State(); {
	case m.broken.Load():
	case came:
		m.came(what, began, at.(time.Time))
	case sent && at.(time.Time).Before(time.Now()) && state.Conn == conn && m.calm:
		m.t.Errorf("%s did not come", what)
	}
}

func (m *mixed) refused() {
	p := m.s.Pipeline()
	k := p.Get("not a path")
	var waits sync.WaitGroup
	waits.Go(func() { k.Wait(m.ctx) })
	time.Sleep(time.Millisecond)
	p.Send(m.ctx)
	began := time.Now()
	waits.Wait()
	m.came("a refusal", began, began)
}

func (m *mixed) vouch(r *rand.Rand) {
	level := client.Vouch(r.IntN(3))
	defer m.s.Vouch(level).Stop()
	time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
	if age, most := m.s.Age(level), mixedTimeout/3+100*time.Millisecond; age > most && m.calm && !m.broken.Load() {
		m.t.Errorf("%v: age %v, more than %v", level, age, most)
	}
}

// caller does this and that.
func (m *mixed) caller(r *rand.Rand) {
	for range 30 {
		if m.ctx.Err() != nil || m.s.Err() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(m.ctx, time.Minute)
		switch r.IntN(15) {
		default:
			m.get(ctx, "/a")
		case 0, 1:
			ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(40))*time.Millisecond)
			m.get(ctx, "/a")
			cancel()
		case 2, 3:
			m.pipeline(ctx, r)
		case 4, 5:
			m.watch(ctx, r)
		case 6:
			m.persistent(ctx, r)
		case 7:
			m.refused()
		case 8:
			m.vouch(r)
		case 9, 10:
			time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		case 11:
			m.get(ctx, fmt.Sprint("/long", m.paths.Add(1)))
		}
		cancel()
	}
}

const (
	mixedTimeout = 6 * time.Second
	longBytes    = 40 << 10
)

// Callers of all kinds come and go, and none waits for what has come already, whichever goroutine reads and writes: not for an
// answer, an event, the end of a context, of a connection or of the session. Virtual time passes when one does.
func TestNobodyWaitsForWhatHasCome(t *testing.T) {
	seed := rand.Uint64()
	for round := range uint64(60) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, round %d", seed, round)
				}
			}()
			r := rand.New(rand.NewPCG(seed, round))
			opt := client.Options{SessionTimeout: mixedTimeout, InFlightMax: 1 + r.IntN(12)}
			if r.IntN(2) == 0 {
				opt.ReplyBytesMax = longBytes / 2
			}
			u := &punctual{seed: seed + round}
			if r.IntN(3) == 0 {
				a := newAuthority(t)
				u.cfg, opt.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue("zk")}}, &tls.Config{RootCAs: a.pool()}
			}
			serveFake(t, n, fakeAddr, u.handle)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := &mixed{t: t, u: u, ctx: ctx}
			m.s = open(t, n, fakeAddr, opt)
			way := round % 4
			m.calm = way < 2
			var callers sync.WaitGroup
			for range 1 + r.IntN(4) {
				r := rand.New(rand.NewPCG(r.Uint64(), round))
				callers.Go(func() { m.caller(r) })
			}
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
			switch way {
			case 1: // the session ends
				m.broken.Store(true)
				must(t, m.s.Close(t.Context()))
			case 2: // the connection ends, again and again
				for range 3 {
					m.lost.Store(time.Now().UnixNano())
					n.Link("client", "").Cut()
					time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
				}
			case 3: // the server falls silent, in the middle of a long answer perhaps, which has a little more time
				m.broken.Store(true)
				n.Link("client", "").Mute(memnet.Both)
				began := time.Now()
				for state, changed := m.s.State(); state.Phase == client.Connected; state, changed = m.s.State() {
					<-changed
				}
				if took, most := time.Since(began), mixedTimeout*2/3+time.Second; took > most {
					t.Errorf("the silence was noticed after %v, more than %v", took, most)
				}
				n.Link("client", "").Heal()
			}
			callers.Wait()
			if way != 1 {
				must(t, m.s.Sync(t.Context(), "/"))
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if l := client.LeftoversOf(m.s); l != (client.Leftovers{}) {
					t.Errorf("left: %+v", l)
				}
			}
			u.busy.Wait()
		})
	}
}
