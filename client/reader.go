package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// readLoop takes what the server sends until the connection ends, when nobody else does.
func (c *conn) readLoop(ctx context.Context) error {
	for {
		err := c.takeArrived()
		for err == nil && !c.mayRest() {
			c.nc.SetReadDeadline(c.in.deadline())
			if err = c.in.fill(); err != nil {
				return c.readError(err)
			}
			err = c.takeArrived()
		}
		if err != nil {
			return err
		}
		if err := c.rest(ctx); err != nil {
			return err
		}
	}
}

// takeArrived takes all messages that have arrived as a whole.
func (c *conn) takeArrived() error {
	for {
		m, skipped, ok, err := c.in.next()
		if err != nil {
			return fmt.Errorf("from %v: %w", c.server, err)
		}
		if !ok {
			return nil
		}
		if err := c.message(m, skipped); err != nil {
			return err
		}
	}
}

// mayRest reports whether the reader leaves the reading to callers.
func (c *conn) mayRest() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.reading.restsNow(c.s.dependLocked() || !c.quietLocked())
}

// rest returns when the reader is to read again.
func (c *conn) rest(ctx context.Context) error {
	tick := time.NewTicker(restTick)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.reading.call:
		case <-tick.C:
			ticked = true
		}
		c.s.mu.Lock()
		err, slept := c.reading.err, c.reading.asleep()
		reads := err == nil && c.reading.readsNow(ticked, c.s.dependLocked())
		sleeps := c.reading.asleep()
		c.s.mu.Unlock()
		switch {
		case reads || err != nil:
			return err
		case sleeps:
			tick.Stop()
		case slept:
			tick.Reset(restTick)
		}
	}
}

// callReader has the reader read, unless somebody does.
func (c *conn) callReader() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.callReaderLocked()
}

func (c *conn) callReaderLocked() {
	if c.reading.who == nobody {
		c.reading.called = true
		c.wakeReader()
	}
}

func (c *conn) wakeReader() {
	select {
	case c.reading.call <- struct{}{}:
	default: // it has been told already
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func (c *conn) readError(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%v hung up", c.server)
	case isTimeout(err):
		if !c.in.due.IsZero() {
			return fmt.Errorf("%v began a message and sent less than %d bytes a second of it", c.server, slowest)
		}
		return fmt.Errorf("nothing heard from %v for %v", c.server, c.readTimeout())
	}
	return fmt.Errorf("read from %v: %w", c.server, err)
}
