// Command singleton is a worker: any number may be started, and one works. The others wait in line,
// and the next one takes over when it stops, dies, or hears no more from the servers.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The log says so while no server can be reached, which Open goes on looking for until ctx ends.
	s, err := client.Open(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{Logger: slog.Default()})
	if err != nil {
		log.Fatal("singleton: ", err)
	}
	defer s.Close(context.Background())
	m, err := lock.NewMutex(s, "/examples/singleton", lock.Options{
		Label: "the only worker",
		Hooks: lock.Hooks{Waiting: func(_ context.Context, _ string, p lock.Place) { fmt.Println("waiting,", p.Ahead, "ahead") }},
	})
	if err != nil {
		log.Fatal("singleton: ", err)
	}
	// Do's context ends with ctx, and when the lock is lost. The lock is given back when consume returns.
	if err := m.Do(ctx, consume); err != nil && ctx.Err() == nil {
		log.Fatal("singleton: ", err) // and the supervisor starts us again
	}
}

// consume works until it is told to stop.
func consume(ctx context.Context) error {
	fmt.Println("working")
	defer func() { fmt.Println("stopped:", context.Cause(ctx)) }()
	for ticker := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-ticker.C: // take a message from the queue
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
