// Command retry does work that has to be done once, and begins it again when the lock was lost on the way:
// under a new session, because the old one's word is worth nothing any more. The work must bear that.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
)

// pause is the time between two attempts.
const pause = time.Second

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal("retry: ", err)
	}
}

func run(ctx context.Context) error {
	// A lock with a session of its own: when the session has ended, the next Lock opens another.
	m, err := lock.Dial(ctx, os.Getenv("LOCKKEEPER_SERVERS"), "/examples/retry", lock.DialOptions{})
	if err != nil {
		return err
	}
	defer m.Close(context.WithoutCancel(ctx))
	for {
		hold, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		err = hold.Do(ctx, work)
		if !errors.Is(err, lock.ErrLost) {
			return err
		}
		fmt.Println("once more:", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// work can be begun again at any time.
func work(ctx context.Context) error {
	fmt.Println("begin")
	select {
	case <-time.After(3 * time.Second):
		fmt.Println("done")
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
