package main

import (
	"fmt"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// How zkcopy copies a tree: this many threads read it, one request at a time each, all of it is kept in memory, and then multis of
// this many creates follow one after the other.
const (
	zkcopyWorkers = 100
	zkcopyBatch   = 1000
)

// copies copies one tree with z cp, and with go-zookeeper in zkcopy's way. zkcopy itself would add the start of a JVM.
func (m *zMeasurement) copies() error {
	ours, err := m.run(true, "cp", "/tree", "/copied")
	if err != nil {
		return err
	}
	conn, _, err := gozk.Connect([]string{m.addr}, 30*time.Second, gozk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer conn.Close()
	begin := time.Now()
	znodes, err := zkcopy(conn, "/tree", "/copied2")
	if err != nil {
		return fmt.Errorf("zkcopy's way: %w", err)
	}
	theirs := time.Since(begin)
	fmt.Printf("z cp of %d znodes: %.2f s, %d MB; in zkcopy's way (%d readers, multis of %d): %.2f s\n",
		znodes, ours.time.Seconds(), ours.peak>>20, zkcopyWorkers, zkcopyBatch, theirs.Seconds())
	return nil
}

// zkcopyNode is a znode that is kept in memory.
type zkcopyNode struct {
	path string // below the root
	data []byte
}

// zkcopy copies a tree and returns how many znodes it has.
func zkcopy(conn *gozk.Conn, from, to string) (int, error) {
	all, err := zkcopyRead(conn, from)
	if err != nil {
		return 0, err
	}
	var ops []any
	for i, n := range all {
		ops = append(ops, &gozk.CreateRequest{Path: to + n.path, Data: n.data, Acl: gozk.WorldACL(gozk.PermAll)})
		if len(ops) < zkcopyBatch && i < len(all)-1 {
			continue
		}
		if _, err := conn.Multi(ops...); err != nil {
			return 0, err
		}
		ops = ops[:0]
	}
	return len(all), nil
}

// zkcopyRead reads a tree, a generation at a time, parents before children.
func zkcopyRead(conn *gozk.Conn, root string) (all []zkcopyNode, err error) {
	for generation := []string{""}; len(generation) > 0; {
		read := make([]zkcopyNode, len(generation))
		below := make([][]string, len(generation))
		errs := make([]error, len(generation))
		next := make(chan int)
		var workers sync.WaitGroup
		for range zkcopyWorkers {
			workers.Go(func() {
				for i := range next {
					path := root + generation[i]
					data, _, err := conn.Get(path)
					if err == nil {
						below[i], _, err = conn.Children(path)
					}
					read[i], errs[i] = zkcopyNode{generation[i], data}, err
				}
			})
		}
		for i := range generation {
			next <- i
		}
		close(next)
		workers.Wait()
		var children []string
		for i, names := range below {
			if errs[i] != nil {
				return nil, errs[i]
			}
			for _, name := range names {
				children = append(children, generation[i]+"/"+name)
			}
		}
		all, generation = append(all, read...), children
	}
	return all, nil
}
