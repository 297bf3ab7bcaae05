package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/fence"
)

// A register keeps a number for each key, on behalf of the holder with the highest token: it is a resource
// as package fence makes them. Over TCP, a line is "read KEY TOKEN" or "write KEY TOKEN VALUE" and is
// answered with "ok VALUE" or "stale".
type register struct {
	ln    net.Listener
	fence fence.Memory
	wg    sync.WaitGroup

	mu     sync.Mutex
	values map[string]int64      // guarded by mu
	conns  map[net.Conn]struct{} // guarded by mu; nil once the register is closed
}

func openRegister(host string) (*register, error) {
	ln, err := net.Listen("tcp", host+":0")
	if err != nil {
		return nil, err
	}
	r := &register{ln: ln, values: map[string]int64{}, conns: map[net.Conn]struct{}{}}
	r.wg.Go(r.accept)
	return r, nil
}

func (r *register) close() {
	r.ln.Close()
	r.mu.Lock()
	for nc := range r.conns {
		nc.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *register) accept() {
	for {
		nc, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		if r.conns == nil {
			nc.Close()
		} else {
			r.conns[nc] = struct{}{}
			r.wg.Go(func() { r.serve(nc) })
		}
		r.mu.Unlock()
	}
}

func (r *register) serve(nc net.Conn) {
	defer func() {
		nc.Close()
		r.mu.Lock()
		delete(r.conns, nc)
		r.mu.Unlock()
	}()
	for lines := bufio.NewScanner(nc); lines.Scan(); {
		if _, err := fmt.Fprintln(nc, r.answer(lines.Text())); err != nil {
			return
		}
	}
}

func (r *register) answer(line string) string {
	var op kind
	var c fence.Claim
	var value int64
	fmt.Sscan(line, &op, &c.Resource, &c.Token, &value)
	err := r.fence.Do(context.Background(), c, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if op == write {
			r.values[c.Resource] = value
		}
		value = r.values[c.Resource]
		return nil
	})
	switch {
	case errors.Is(err, fence.ErrStale):
		return "stale"
	case err != nil:
		return err.Error()
	}
	return fmt.Sprint("ok ", value)
}

// A registerClient is a holder's connection to a register.
type registerClient struct {
	nc    net.Conn
	lines *bufio.Scanner
}

func dialRegister(addr string) (*registerClient, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &registerClient{nc, bufio.NewScanner(nc)}, nil
}

// ask sends a line and returns the answer.
func (c *registerClient) ask(line string) (value int64, stale bool, err error) {
	if _, err := fmt.Fprintln(c.nc, line); err != nil {
		return 0, false, err
	}
	if !c.lines.Scan() {
		return 0, false, errors.New("the register hung up")
	}
	if c.lines.Text() == "stale" {
		return 0, true, nil
	}
	if _, err := fmt.Sscanf(c.lines.Text(), "ok %d", &value); err != nil {
		return 0, false, fmt.Errorf("the register answers %q", c.lines.Text())
	}
	return value, false, nil
}
