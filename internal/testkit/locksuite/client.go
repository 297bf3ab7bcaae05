package locksuite

import (
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
)

// A Client is a session that has the way to its servers to itself.
type Client struct {
	*client.Session
	Label string
	Proxy *faultproxy.Proxy
	w     *World
}

// Client opens a session through a proxy of its own.
func (w *World) Client(label string) *Client { return w.ClientWith(label, client.Options{}) }

// ClientWith is Client with options. opt.Dial, if given, reaches the servers for the proxy, which stands in
// front of it.
func (w *World) ClientWith(label string, opt client.Options) *Client {
	w.t.Helper()
	if opt.Dial == nil {
		opt.Dial = w.Dial
	}
	p := faultproxy.New(opt.Dial)
	w.t.Cleanup(p.Close)
	opt.Dial = p.Dial
	if opt.BackoffMax == 0 {
		opt.BackoffMax = backoffMax
	}
	return &Client{Session: w.open(label, opt), Label: label, Proxy: p, w: w}
}

// backoffMax is how long clients pause at most before they try the servers again, so that what must
// happen within a second after the network is healthy can.
const backoffMax = 200 * time.Millisecond

// Blackhole makes everything vanish that the client and the servers send each other, until Heal.
func (c *Client) Blackhole() { c.Proxy.SetFlows(faultproxy.Stall) }

// Heal ends Blackhole.
func (c *Client) Heal() { c.Proxy.SetFlows(faultproxy.Pass) }

// Unreachable breaks the client's connection and refuses new ones, until Reachable.
func (c *Client) Unreachable() {
	c.Proxy.Refuse(true)
	c.Proxy.CutAll()
}

// Reachable ends Unreachable.
func (c *Client) Reachable() { c.Proxy.Refuse(false) }

// Cut breaks the connection once a request that matches has been applied, before its answer comes; or before
// it is sent on.
func (c *Client) Cut(m faultproxy.Match, applied bool) {
	if applied {
		c.Proxy.CutAfter(m)
	} else {
		c.Proxy.CutBefore(m)
	}
}

// CutOff is Cut, with new connections refused from then on, until Reachable. It calls then in between.
func (c *Client) CutOff(m faultproxy.Match, applied bool, then func()) {
	off := func() {
		c.Proxy.Refuse(true)
		then()
	}
	if applied {
		c.Proxy.After(m, func(faultproxy.Request, faultproxy.Reply) { off() })
	} else {
		c.Proxy.Before(m, func(faultproxy.Request) { off() })
	}
	c.Cut(m, applied)
}

// Alive returns the client, or another of its label if its session is over.
func (c *Client) Alive() *Client {
	if c.Err() == nil {
		return c
	}
	c.Proxy.Close()
	return c.w.Client(c.Label)
}

// options are those of the client's locks. They re-enter, so that each test may.
func (c *Client) options(opt lock.Options) lock.Options {
	if opt.Label == "" {
		opt.Label = c.Label
	}
	opt.Reentrant = true
	return opt
}

// made returns what was made, or ends the test.
func made[T any](w *World, m T, err error) T {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// Mutex returns the world's lock as seen by the client. The methods below do the same for other kinds of locks, and
// those that end in At for other paths.
func (c *Client) Mutex(opt lock.Options) *lock.Mutex {
	c.w.t.Helper()
	return c.MutexAt(c.w.dir, opt)
}

func (c *Client) MutexAt(path string, opt lock.Options) *lock.Mutex {
	c.w.t.Helper()
	m, err := lock.NewMutex(c.Session, path, c.options(opt))
	return made(c.w, m, err)
}

func (c *Client) RWMutex() *lock.RWMutex {
	c.w.t.Helper()
	return c.RWMutexAt(c.w.dir, lock.Options{})
}

func (c *Client) RWMutexAt(path string, opt lock.Options) *lock.RWMutex {
	c.w.t.Helper()
	m, err := lock.NewRWMutex(c.Session, path, c.options(opt))
	return made(c.w, m, err)
}

func (c *Client) Semaphore(n int) *lock.Semaphore {
	c.w.t.Helper()
	return c.SemaphoreAt(c.w.dir, n, lock.Options{})
}

func (c *Client) SemaphoreAt(path string, n int, opt lock.Options) *lock.Semaphore {
	c.w.t.Helper()
	m, err := lock.NewSemaphore(c.Session, path, n, c.options(opt))
	return made(c.w, m, err)
}

// CuratorSemaphore is Semaphore in the layout of Curator's.
func (c *Client) CuratorSemaphore(n int) *lock.Semaphore {
	c.w.t.Helper()
	m, err := lock.NewCuratorSemaphore(c.Session, c.w.dir, n, c.options(lock.Options{}))
	return made(c.w, m, err)
}

func (c *Client) Unfair() *lock.Unfair {
	c.w.t.Helper()
	return c.UnfairAt(c.w.dir)
}

func (c *Client) UnfairAt(path string) *lock.Unfair {
	c.w.t.Helper()
	u, err := lock.NewUnfair(c.Session, path, c.options(lock.Options{}))
	return made(c.w, u, err)
}

func (c *Client) Latch() lock.Locker {
	c.w.t.Helper()
	l, err := bridge.NewLatch[lock.Locker](c.Session, c.w.dir, c.options(lock.Options{}))
	return made(c.w, l, err)
}

func (c *Client) Election(opt election.Options) *election.Election {
	c.w.t.Helper()
	if opt.ID == "" {
		opt.ID = c.Label
	}
	e, err := election.New(c.Session, c.w.dir, opt)
	return made(c.w, e, err)
}

// AllOf returns what takes the members together.
func (w *World) AllOf(members ...lock.Member) *lock.All {
	w.t.Helper()
	all, err := lock.NewAll(members...)
	return made(w, all, err)
}

// Mutexes returns the mutexes at paths as members.
func (c *Client) Mutexes(paths []string, opt lock.Options) []lock.Member {
	members := make([]lock.Member, len(paths))
	for i, path := range paths {
		members[i] = c.MutexAt(path, opt)
	}
	return members
}
