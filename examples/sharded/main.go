// Command sharded works off the shards of an index: each shard is built by one process at a time, and no
// more than three are built at once in the whole fleet, because the database behind them bears no more.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

const (
	shards = 8
	atOnce = 3
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal("sharded: ", err)
	}
}

func run(ctx context.Context) error {
	s, err := client.Open(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	slots, err := lock.NewSemaphore(s, "/examples/sharded/slots", atOnce, lock.Options{Label: "index"})
	if err != nil {
		return err
	}
	for _, shard := range rand.Perm(shards) { // so that not all workers begin with the same
		m, err := lock.NewMutex(s, fmt.Sprintf("/examples/sharded/shard-%d", shard), lock.Options{Label: "index"})
		if err != nil {
			return err
		}
		hold, err := m.TryLock(ctx)
		if errors.Is(err, lock.ErrBusy) {
			continue // another worker is at it
		}
		if err != nil {
			return err
		}
		// The permit is asked for under the shard's lock: if that is lost, the wait and the work end.
		err = hold.Do(ctx, func(ctx context.Context) error {
			return slots.Do(ctx, func(ctx context.Context) error { return build(ctx, shard) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// build builds a shard. It may be built again by a worker that comes to it later, and bears that.
func build(ctx context.Context, shard int) error {
	fmt.Println("begin", shard)
	select {
	case <-time.After(50 * time.Millisecond):
		fmt.Println("end", shard)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
