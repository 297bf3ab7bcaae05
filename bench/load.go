package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	connections    = 16
	inFlight       = 16 // on each connection
	workers        = connections * inFlight
	sessionTimeout = 30 * time.Second
	connectLimit   = time.Minute
	valueBytes     = 100
)

// A load is what is done again and again.
type load struct {
	name            string
	conns, inFlight int
	target          float64 // how many times Apache's rate ours shall be
	do              func(c *zk.Conn, path string) error
}

var loads = []load{
	{"gets, 16 x 16", connections, inFlight, 2, get},
	{"sets, 16 x 16", connections, inFlight, 2, set},
	{"ephemeral create+delete, 16 x 16", connections, inFlight, 2, pair},
	{"sets, one at a time", 1, 1, 1.4, set},
}

var value = make([]byte, valueBytes)

func get(c *zk.Conn, path string) error { _, _, err := c.Get(path); return err }
func set(c *zk.Conn, path string) error { _, err := c.Set(path, value, -1); return err }
func pair(c *zk.Conn, path string) error {
	if _, err := c.Create(path+"/e", value, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		return err
	}
	return c.Delete(path+"/e", -1)
}

// measure does the load for a while, each worker on a znode of its own.
func (l load) measure(s *server, dial zk.Dialer, each time.Duration) (run, error) {
	conns, err := connectAll(s.addr, l.conns, dial)
	defer closeAll(conns)
	if err != nil {
		return run{}, err
	}
	n := l.conns * l.inFlight
	if err := createWorkers(conns[0], n); err != nil {
		return run{}, err
	}
	return s.measure(each, n, func(worker, _ int) error { return l.do(conns[worker%l.conns], workerPath(worker)) })
}

func workerPath(worker int) string { return fmt.Sprintf("/w%d", worker) }

// createWorkers makes the znodes of so many workers, unless they are there.
func createWorkers(c *zk.Conn, n int) error {
	for i := range n {
		if _, err := c.Create(workerPath(i), value, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// measure has workers do something again and again for a while; they are told their own number and how often they did
// it before.
func (s *server) measure(each time.Duration, workers int, do func(worker, times int) error) (run, error) {
	var done atomic.Int64
	before, err := s.now()
	if err != nil {
		return run{}, err
	}
	err = inParallel(workers, func(worker int) error {
		for times := 0; time.Since(before.at) < each; times++ {
			if err := do(worker, times); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	after, clockErr := s.now()
	if err := errors.Join(err, clockErr); err != nil {
		return run{}, err
	}
	return runBetween(before, after, done.Load()), nil
}

// inParallel has n workers do something once, and returns an error if one of them has.
func inParallel(n int, do func(worker int) error) error {
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := do(i); err != nil {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// connectAll returns when all have a session, or with those that have one and an error.
func connectAll(addr string, n int, dial zk.Dialer) ([]*zk.Conn, error) {
	conns := make([]*zk.Conn, n)
	var next atomic.Int64
	err := inParallel(min(n, connections), func(int) error {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			c, err := connect(addr, dial)
			if err != nil {
				return err
			}
			conns[i] = c
		}
		return nil
	})
	return conns, err
}

// closeAll closes the connections that are there.
func closeAll(conns []*zk.Conn) {
	inParallel(len(conns), func(i int) error {
		if conns[i] != nil {
			conns[i].Close()
		}
		return nil
	})
}

// connect returns when there is a session.
func connect(addr string, dial zk.Dialer) (*zk.Conn, error) {
	c, events, err := zk.Connect([]string{addr}, sessionTimeout, zk.WithLogger(silent{}), zk.WithDialer(dial))
	if err != nil {
		return nil, err
	}
	late := time.After(connectLimit)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return c, nil
			}
		case <-late:
			c.Close()
			return nil, fmt.Errorf("no session at %s after %v", addr, connectLimit)
		}
	}
}

// silent is a logger for go-zookeeper.
type silent struct{}

func (silent) Printf(string, ...any) {}
