package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A lone client is one goroutine that writes requests and reads their answers, and nothing else: what a client can
// reach with our server. What wakes another goroutine in each cycle shows what that costs.
type lone struct {
	nc  net.Conn
	in  *bufio.Reader
	out []byte
	xid int32
	dir string
}

func newLone(addr, dir string) (*lone, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &lone{nc: nc, in: bufio.NewReader(nc), dir: dir}
	err = wire.WriteRecord(nc, &wire.ConnectRequest{Timeout: int32(sessionTimeout.Milliseconds()), Password: make([]byte, 16)})
	if err == nil {
		_, err = wire.ReadFrame(c.in, nil, wire.FrameBytesMax)
	}
	if err == nil {
		c.ask(wire.OpCreate, &wire.CreateRequest{Path: dir, ACL: zk.OpenACL()})
		_, err = c.answers(1)
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("lone client at %s: %w", addr, err)
	}
	return c, nil
}

// ask adds a request to what is sent next.
func (c *lone) ask(op wire.Op, r wire.Record) {
	c.xid++
	b, start := wire.BeginFrame(c.out)
	c.out = wire.EndFrame(r.AppendTo((&wire.RequestHeader{Xid: c.xid, Op: op}).AppendTo(b)), start)
}

// answers sends what was asked and returns the first of so many answers.
func (c *lone) answers(n int) (first *wire.Decoder, err error) {
	_, err = c.nc.Write(c.out)
	for c.out = c.out[:0]; n > 0 && err == nil; n-- {
		var frame []byte
		if frame, err = wire.ReadFrame(c.in, nil, wire.FrameBytesMax); err != nil {
			break
		}
		d := wire.NewDecoder(frame)
		var h wire.ReplyHeader
		h.DecodeFrom(d)
		if h.Err != zk.OK {
			err = h.Err
		}
		if first == nil {
			first = d
		}
	}
	return first, err
}

// cycle asks for what a lock and its release ask for. Between them it calls held, and then what that returned.
func (c *lone) cycle(held func() (end func())) error {
	c.ask(wire.OpCreate2, &wire.CreateRequest{
		Path: c.dir + "/_c_00000000000000000000000000000000-lock-", Data: value, ACL: zk.OpenACL(), Mode: zk.EphemeralSequential,
	})
	c.ask(wire.OpGetChildren2, &wire.WatchRequest{Path: c.dir})
	d, err := c.answers(2)
	if err != nil {
		return err
	}
	node := d.String()
	if node == "" {
		return errors.New("a node without a name")
	}
	end := held()
	c.ask(wire.OpDelete, &wire.VersionRequest{Path: node, Version: -1})
	_, err = c.answers(1)
	end()
	return err
}

// loneSteps are cycles of lone clients, which differ in what they do besides.
func loneSteps(addr string) (steps []*step, stop func(), err error) {
	nothing := func() func() { return func() {} }
	poke := make(chan struct{}, 1)
	go func() {
		for range poke {
		}
	}()
	var clients []*lone
	stop = func() {
		close(poke)
		for _, c := range clients {
			c.nc.Close()
		}
	}
	for i, s := range []struct {
		name string
		held func() func()
	}{
		{"its requests, sent and received by one goroutine that does nothing else", nothing},
		{"the same, and another goroutine is woken once", func() func() { poke <- struct{}{}; return func() {} }},
		{"the same, and a goroutine is begun and ended", func() func() {
			over := make(chan struct{})
			go func() { <-over }()
			return func() { close(over) }
		}},
		{"the same, and a timer of 10 ms is set and stopped", func() func() {
			t := time.AfterFunc(10*time.Millisecond, func() {})
			return func() { t.Stop() }
		}},
	} {
		c, err := newLone(addr, fmt.Sprintf("/lone%d", i))
		if err != nil {
			stop()
			return nil, nil, err
		}
		clients = append(clients, c)
		steps = append(steps, &step{name: s.name, once: func() error { return c.cycle(s.held) }})
	}
	return steps, stop, nil
}
