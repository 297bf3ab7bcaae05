package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

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
	if err := fill(s.addr, 0, znodes); err != nil {
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
	worked, err := s.cpuTime()
	if err != nil {
		return err
	}
	reopened, err := s.resident()
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d znodes of %d bytes: %+d MB filled, %+d MB opened again, in %v with %v of processors (target %s)\n",
		s.name, znodes, valueBytes, (after-before)>>20, (reopened-before)>>20, opened.Round(time.Millisecond), worked, target)
	return nil
}

// fill creates the znodes from number begin up to end, a thousand below one.
func fill(addr string, begin, end int) error {
	conns, err := connectAll(addr, connections, dialGathering)
	defer closeAll(conns)
	if err != nil {
		return err
	}
	for i := begin / perDirectory; i*perDirectory < end; i++ {
		if _, err := conns[0].Create(fmt.Sprintf("/m%d", i), value, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	var next atomic.Int64
	next.Store(int64(begin))
	return inParallel(workers, func(worker int) error {
		for n := int(next.Add(1) - 1); n < end; n = int(next.Add(1) - 1) {
			if _, err := conns[worker%connections].Create(filledPath(n), value, 0, zk.WorldACL(zk.PermAll)); err != nil {
				return err
			}
		}
		return nil
	})
}

const perDirectory = 1000

func filledPath(n int) string { return fmt.Sprintf("/m%d/n%d", n/perDirectory, n) }

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
