package main

import (
	"fmt"

	"github.com/go-zookeeper/zk"
)

// waitersPerSession and the sessions make the contenders of one lock.
const (
	waiterSessions    = 16
	waitersPerSession = 6250
	waiterTarget      = 1000 // bytes
)

// waiters prints what a contender that waits for a lock costs our server: an ephemeral znode, a watch on it and one on
// that ahead of it. The sessions are shared, as they are by the contenders of a program.
func waiters(dir string) error {
	s, err := newOurs(dir)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.start(); err != nil {
		return err
	}
	describe()
	before, err := s.resident()
	if err != nil {
		return err
	}
	conns, err := connectAll(s.addr, waiterSessions, dialGathering)
	defer closeAll(conns)
	if err != nil {
		return err
	}
	if _, err := conns[0].Create("/lock", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		return err
	}
	const n = waiterSessions * waitersPerSession
	own := make([]string, n)
	if err := inParallel(workers, func(worker int) error {
		c := conns[worker%waiterSessions]
		for i := worker; i < n; i += workers {
			path, err := c.CreateProtectedEphemeralSequential("/lock/lock-", value[:0], zk.WorldACL(zk.PermAll))
			if err != nil {
				return err
			}
			own[i] = path
		}
		return nil
	}); err != nil {
		return err
	}
	if err := inParallel(workers, func(worker int) error {
		c := conns[worker%waiterSessions]
		for i := worker; i < n; i += workers {
			for _, path := range []string{own[i], own[(i+1)%n]} {
				if _, _, _, err := c.ExistsW(path); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	after, err := s.resident()
	if err != nil {
		return err
	}
	fmt.Printf("%d contenders in %d sessions: %+d MB resident, %d bytes each (target < %d)\n",
		n, waiterSessions, (after-before)>>20, (after-before)/n, waiterTarget)
	return nil
}
