package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"
)

// A step of a curve does gets and sets.
var steps = []struct {
	name string
	do   func(c *zk.Conn, path string) error
}{{"gets", get}, {"sets", set}}

// curves prints how our server does with ever more sessions, and with ever more znodes.
func curves(dir string, each time.Duration, znodesMax, sessionsMax int) error {
	s, err := startOurs(dir)
	if err != nil {
		return err
	}
	defer s.stop()
	describe()
	fmt.Printf("%d requests in flight over all sessions together, for the number of sessions.\n", workers)
	fmt.Printf("With few of them, many requests share a packet; from %d on, each has its own:\n", workers)
	for _, sessions := range []int{1, 100, workers, 1000, 5000} {
		if err := s.withSessions(min(sessions, sessionsMax), each); err != nil {
			return err
		}
	}
	fmt.Printf("\n%d sessions with %d requests in flight each, any of so many znodes each time:\n", connections, inFlight)
	filled := 0
	for _, znodes := range []int{10, 10_000, 1_000_000} {
		znodes = min(znodes, znodesMax)
		if err := fill(s.addr, filled, znodes); err != nil {
			return err
		}
		filled = max(filled, znodes)
		if err := s.withZnodes(znodes, each); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) withSessions(n int, each time.Duration) error {
	conns, err := connectAll(s.addr, n, dialGathering)
	defer closeAll(conns)
	if err != nil {
		return err
	}
	if err := createWorkers(conns[0], workers); err != nil {
		return err
	}
	for _, step := range steps {
		if err := s.point(n, step.name, each, func(worker, times int) error {
			return step.do(conns[(worker+times*workers)%n], workerPath(worker))
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) withZnodes(n int, each time.Duration) error {
	conns, err := connectAll(s.addr, connections, dialGathering)
	defer closeAll(conns)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := s.point(n, step.name, each, func(worker, _ int) error {
			return step.do(conns[worker%connections], filledPath(rand.IntN(n)))
		}); err != nil {
			return err
		}
	}
	return nil
}

// point measures one point of a curve and prints it.
func (s *server) point(n int, name string, each time.Duration, do func(worker, times int) error) error {
	var runs []run
	for range rounds {
		r, err := s.measure(each, workers, do)
		if err != nil {
			return fmt.Errorf("%s with %d: %w", name, n, err)
		}
		runs = append(runs, r)
	}
	fmt.Printf("  %8d  %s  %v\n", n, name, median(runs))
	return nil
}
