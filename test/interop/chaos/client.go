package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
)

// clientVariable is the environment variable that makes this test binary a client, and its
// configuration, as JSON.
const clientVariable = "LOCKKEEPER_CHAOS_CLIENT"

// clientConfig is what a client needs to know.
type clientConfig struct {
	ID       int64 // unique; it is in the values that the client writes
	Servers  []string
	Timeout  time.Duration // of the session
	Vouch    client.Vouch
	Register string // address
	Keys     []string
	Epoch    time.Duration // the locks have other paths after each; 0 for never
	Cling    bool          // as the command: from the beginning
	Seed     uint64
}

const (
	lockTimeout    = 20 * time.Second // of one attempt
	releaseTimeout = 10 * time.Second
	retryPause     = 50 * time.Millisecond
	stepMax        = 20 * time.Millisecond // between what a holder does
	longStayMax    = 2 * time.Second       // of one such step in longStayEvery
	longStayEvery  = 20
	sampleInterval = 2 * time.Millisecond // of a holder that looks at its hold
	aliveInterval  = 50 * time.Millisecond
	backoffMax     = 200 * time.Millisecond
)

// A runner is what a client's process has.
type runner struct {
	cfg     clientConfig
	proxies map[string]*faultproxy.Proxy // by server
	over    <-chan struct{}              // closed when the client is to stop
	cling   atomic.Bool                  // hold until the hold is lost

	out struct {
		sync.Mutex
		*json.Encoder
	}
	session struct {
		sync.Mutex
		*client.Session
	}
	delay struct { // of all answers; for the goroutine that obeys
		rules []*faultproxy.Rule
	}
}

// runClient is the main function of a client. It obeys lines on stdin, until "stop" or their end:
//
//	flow SERVER pass|requests|answers|all   which direction is stalled
//	delay DURATION                          of every answer
//	cling on|off                            hold until the hold is lost, or until it is off
func runClient(config string, stdin io.Reader, stdout io.Writer) error {
	r := &runner{proxies: map[string]*faultproxy.Proxy{}}
	if err := json.Unmarshal([]byte(config), &r.cfg); err != nil {
		return err
	}
	r.out.Encoder = json.NewEncoder(stdout)
	r.cling.Store(r.cfg.Cling)
	var d net.Dialer
	for _, s := range r.cfg.Servers {
		r.proxies[s] = faultproxy.New(d.DialContext)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.over = ctx.Done()
	var wg sync.WaitGroup
	for i, key := range r.cfg.Keys {
		reg, err := dialRegister(r.cfg.Register)
		if err != nil {
			stop()
			return err
		}
		l := &loop{runner: r, key: key, reg: reg, value: r.cfg.ID<<32 | int64(i)<<24,
			rng: rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)))}
		wg.Go(func() { l.run(ctx) })
	}
	for lines := bufio.NewScanner(stdin); lines.Scan() && lines.Text() != "stop"; {
		if err := r.obey(strings.Fields(lines.Text())); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	stop()
	wg.Wait()
	if r.session.Session != nil {
		r.session.Close(context.Background())
	}
	r.say(event{Kind: bye})
	return nil
}

func (r *runner) obey(f []string) error {
	switch {
	case len(f) == 3 && f[0] == "flow" && r.proxies[f[1]] != nil:
		requests, answers := faultproxy.Pass, faultproxy.Pass
		if f[2] == "requests" || f[2] == "all" {
			requests = faultproxy.Stall
		}
		if f[2] == "answers" || f[2] == "all" {
			answers = faultproxy.Stall
		}
		r.proxies[f[1]].SetFlow(faultproxy.ToServer, requests)
		r.proxies[f[1]].SetFlow(faultproxy.ToClient, answers)
		return nil
	case len(f) == 2 && f[0] == "cling":
		r.cling.Store(f[1] == "on")
		return nil
	case len(f) == 2 && f[0] == "delay":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			return err
		}
		for _, rule := range r.delay.rules {
			rule.Remove()
		}
		r.delay.rules = nil
		if d > 0 {
			for _, p := range r.proxies {
				r.delay.rules = append(r.delay.rules, p.Hold(faultproxy.Match{Times: faultproxy.Always}, d))
			}
		}
		return nil
	}
	return fmt.Errorf("no such command: %q", f)
}

// say writes an event.
func (r *runner) say(e event) {
	r.out.Lock()
	defer r.out.Unlock()
	e.At = now()
	r.out.Encode(e) // if the other end does not read any more, the process is about to be killed
}

// open returns the session, a new one if the last one is over.
func (r *runner) open(ctx context.Context) (*client.Session, error) {
	r.session.Lock()
	defer r.session.Unlock()
	if s := r.session.Session; s != nil && s.Err() == nil {
		return s, nil
	}
	s, err := client.Open(ctx, strings.Join(r.cfg.Servers, ","), client.Options{
		SessionTimeout: r.cfg.Timeout, BackoffMax: backoffMax,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			r.say(event{Kind: dialed, Text: address})
			return r.proxies[address].Dial(ctx, network, address)
		},
	})
	if err == nil {
		r.session.Session = s
	}
	return s, err
}

// A loop takes one lock again and again.
type loop struct {
	*runner
	key   string
	reg   *registerClient
	rng   *rand.Rand
	value int64 // that was written last
}

func (l *loop) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.cycle(ctx); err != nil && ctx.Err() == nil {
			l.say(event{Kind: failed, Key: l.key, Text: err.Error()})
			l.sleep(retryPause)
		}
		l.sleep(stepMax)
	}
}

// sleep pauses for a random part of most.
func (l *loop) sleep(most time.Duration) { time.Sleep(rand.N(most)) }

// path is the lock's, at the moment.
func (l *loop) path() string {
	if l.cfg.Epoch == 0 {
		return "/chaos/" + l.key
	}
	return fmt.Sprintf("/chaos/%s-%d", l.key, now()/int64(l.cfg.Epoch))
}

// lock returns the lock at a path, of the kind that goes with the key: an unfair one, or a mutex, for which
// the write side of a read/write lock will do as well.
func (l *loop) lock(s *client.Session, path string) (interface {
	Lock(ctx context.Context) (*lock.Hold, error)
}, error) {
	opt := lock.Options{Vouch: l.cfg.Vouch}
	switch {
	case l.key == unfairKey:
		return lock.NewUnfair(s, path, opt)
	case l.rng.IntN(2) == 0:
		return lock.NewRWMutex(s, path, opt)
	default:
		return lock.NewMutex(s, path, opt)
	}
}

// unfairKey is the key of a lock without a queue.
const unfairKey = "unfair"

// cycle acquires the lock once, works and releases it.
func (l *loop) cycle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	s, err := l.open(ctx)
	if err != nil {
		return err
	}
	key := l.path()
	m, err := l.lock(s, key)
	if err != nil {
		return err
	}
	call := now()
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	t := turn{loop: l, hold: h, key: key, alive: now()}
	l.say(event{Kind: granted, Key: t.key, Token: h.Token(), Call: call, Value: int64(s.Timeout())})
	err = t.work()
	lost := h.Cause() != nil
	rctx, rcancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer rcancel()
	rerr := h.Release(rctx)
	l.say(event{Kind: ended, Key: t.key, Token: h.Token(), Alive: t.alive, Lost: lost})
	if errors.Is(rerr, lock.ErrLost) || errors.Is(rerr, lock.ErrReleasePending) {
		rerr = nil // it happens here, and the history has it
	}
	return errors.Join(err, rerr)
}

// A turn is the work under one hold.
type turn struct {
	*loop
	hold  *lock.Hold
	key   string
	alive int64 // when the hold was last known to be valid
	said  int64 // the alive of the last event
}

// look reports whether the hold is valid, and remembers that it was.
func (t *turn) look() bool {
	before := now()
	if t.hold.Cause() != nil {
		return false
	}
	t.alive = before
	return true
}

// stay goes on looking for d and for as long as the client clings, or until the hold or the client is over.
func (t *turn) stay(d time.Duration) {
	for end := now() + int64(d); t.look() && (now() < end || t.cling.Load()); time.Sleep(sampleInterval) {
		select {
		case <-t.over:
			return
		default:
		}
		if t.alive-t.said > int64(aliveInterval) {
			t.said = t.alive
			t.say(event{Kind: alive, Key: t.key, Token: t.hold.Token(), Alive: t.alive})
		}
	}
}

// work reads and writes the register some times. A write comes also if the hold was lost after the read:
// too late, if another one has been there, and then the register has to refuse it.
func (t *turn) work() error {
	if t.cling.Load() {
		t.stay(0)
		return nil
	}
	for range 1 + t.rng.IntN(3) {
		if !t.look() {
			return nil
		}
		base, stale, err := t.ask(event{Kind: read})
		if err != nil || stale {
			return err
		}
		stay := stepMax
		if t.rng.IntN(longStayEvery) == 0 {
			stay = longStayMax
		}
		t.stay(time.Duration(t.rng.Int64N(int64(stay))))
		t.value++
		if _, stale, err := t.ask(event{Kind: write, Base: base, Value: t.value}); err != nil || stale {
			return err
		}
	}
	return nil
}

// ask sends the register a request, and says so before and after.
func (t *turn) ask(e event) (value int64, stale bool, err error) {
	e.Key, e.Token, e.Alive = t.key, t.hold.Token(), t.alive
	t.say(e)
	line := fmt.Sprintf("%s %s %d %d", e.Kind, e.Key, e.Token, e.Value)
	value, stale, err = t.reg.ask(line)
	if err == nil {
		t.say(event{Kind: did, Key: e.Key, Token: e.Token, Value: value, Stale: stale})
	}
	return value, stale, err
}

// servers returns a server list in the order in which this client is to know it.
func servers(all []string, first int) []string {
	return slices.Concat(all[first%len(all):], all[:first%len(all)])
}
