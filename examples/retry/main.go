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

	"github.com/lockkeeper/lockkeeper/client"
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
	sessions, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		return err
	}
	defer sessions.Close(context.WithoutCancel(ctx))
	for {
		// Run calls workLocked again with another session if this one is over. A lock that was lost in any other way is an error.
		err := sessions.Run(ctx, workLocked)
		if !errors.Is(err, lock.ErrLost) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// workLocked does the work under the lock on one session.
func workLocked(ctx context.Context, s *client.Session) error {
	m, err := lock.NewMutex(s, "/examples/retry", lock.Options{})
	if err != nil {
		return err
	}
	err = m.Do(ctx, work)
	if errors.Is(err, lock.ErrLost) {
		fmt.Println("once more:", err)
	}
	return err
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
