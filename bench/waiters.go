package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
)

// waitersPerSession and the sessions make the contenders of one lock.
const (
	waiterSessions    = 16
	waitersPerSession = 6250
	waiterTarget      = 1000 // bytes
)

// waiters prints what a contender that waits for a lock costs our client and our server; the latter an ephemeral
// znode, a watch on it and one on that ahead of it. The sessions are shared, as they are by the contenders of a
// program.
func waiters(dir string) error {
	s, err := startOurs(dir)
	if err != nil {
		return err
	}
	defer s.stop()
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
	closeAll(conns)
	return ownWaiters(s.addr)
}

const (
	ownWaitersEach  = 125 // for each session; each lists all that came before it
	ownWaiterTarget = 4000
)

// ownWaiters prints what a contender that waits costs our client.
func ownWaiters(addr string) error {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var sessions []*client.Session
	for range waiterSessions {
		s, err := client.Open(ctx, addr, client.Options{SessionTimeout: time.Minute})
		if err != nil {
			return err
		}
		defer s.Close(context.Background())
		sessions = append(sessions, s)
	}
	mutex := func(i int) (*lock.Mutex, error) {
		return lock.NewMutex(sessions[i%waiterSessions], "/waiters", lock.Options{})
	}
	m, err := mutex(0)
	if err != nil {
		return err
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release(context.Background())
	heap, stacks := inUse()
	const n = waiterSessions * ownWaitersEach
	for i := range n {
		m, err := mutex(i)
		if err != nil {
			return err
		}
		wg.Go(func() { m.Lock(ctx) })
	}
	for {
		s, err := inspect.Look(ctx, sessions[0], "/waiters")
		if err != nil {
			return err
		}
		if len(s.Contenders) > n {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second) // the last ones set their watches
	heapAfter, stacksAfter := inUse()
	fmt.Printf("%d contenders of our client in %d sessions: %d bytes each (target < %d), besides %d of the waiting goroutine's stack\n",
		n, waiterSessions, (heapAfter-heap)/n, ownWaiterTarget, (stacksAfter-stacks)/n)
	return nil
}

// inUse returns what the live objects and the stacks of this process take.
func inUse() (heap, stacks int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc), int(m.StackInuse)
}
