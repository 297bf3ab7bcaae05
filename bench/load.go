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
	sessionTimeout = 30 * time.Second
	connectLimit   = 30 * time.Second
	valueBytes     = 100
)

// A load is what is done again and again, each worker below a znode of its own.
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

// measure returns how often a second the load was done.
func (l load) measure(addr string, each time.Duration) (float64, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	conns := make([]*zk.Conn, l.conns)
	for i := range conns {
		c, err := connect(addr)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		conns[i] = c
		for j := range l.inFlight {
			if _, err := c.Create(workerPath(i, j), value, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return 0, err
			}
		}
	}
	begin := time.Now()
	for i, c := range conns {
		for j := range l.inFlight {
			wg.Go(func() {
				for path := workerPath(i, j); time.Since(begin) < each; done.Add(1) {
					if err := l.do(c, path); err != nil {
						failed.Store(&err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}

func workerPath(i, j int) string { return fmt.Sprintf("/w%d-%d", i, j) }

// connect returns when there is a session.
func connect(addr string) (*zk.Conn, error) {
	c, events, err := zk.Connect([]string{addr}, sessionTimeout, zk.WithLogger(silent{}))
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
