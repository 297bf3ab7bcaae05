package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// workers is how many fill a server at a time.
const workers = 256

// measureMemory starts s twice: as it is, to be filled with znodes, and with them.
func measureMemory(s *server, znodes int, target string) error {
	if err := s.start(); err != nil {
		return err
	}
	defer s.stop()
	before, err := s.resident()
	if err != nil {
		return err
	}
	if err := fill(s.addr, znodes); err != nil {
		return fmt.Errorf("fill %s: %w", s.name, err)
	}
	after, err := s.resident()
	if err != nil {
		return err
	}
	s.stop()
	begin := time.Now()
	if err := s.start(); err != nil {
		return err
	}
	opened := time.Since(begin)
	reopened, err := s.resident()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d znodes of %d bytes: %+d MB filled, %+d MB opened again, in %v (target %s)\n",
		s.name, znodes, valueBytes, (after-before)>>20, (reopened-before)>>20, opened.Round(time.Millisecond), target)
	return nil
}

// fill creates znodes, a thousand below one.
func fill(addr string, znodes int) error {
	var conns []*zk.Conn
	for range connections {
		c, err := connect(addr)
		if err != nil {
			return err
		}
		defer c.Close()
		conns = append(conns, c)
	}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	create := func(c *zk.Conn, path string) bool {
		_, err := c.Create(path, value, 0, zk.WorldACL(zk.PermAll))
		if err != nil {
			failed.Store(&err)
		}
		return err == nil
	}
	for i := range (znodes + 999) / 1000 {
		if !create(conns[0], fmt.Sprintf("/m%d", i)) {
			return *failed.Load()
		}
	}
	for i := range workers {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(znodes) && failed.Load() == nil; n = next.Add(1) - 1 {
				if !create(conns[i%connections], fmt.Sprintf("/m%d/n%d", n/1000, n)) {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// resident returns the bytes of memory that the server occupies.
func (s *server) resident() (int64, error) {
	path := fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid)
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("%s: %q", path, b)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
