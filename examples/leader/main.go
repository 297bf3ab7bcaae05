// Command leader stands for election and works while it leads. When it is told to stop it finishes first and
// then lets the next one lead; when it loses its session it opens another and stands again.
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
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: leader NAME")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{Logger: slog.Default()})
	if err != nil {
		log.Fatal("leader: ", err)
	}
	defer k.Close(context.WithoutCancel(ctx))
	opt := election.Options{ID: os.Args[1], Grace: 10 * time.Second, Lock: lock.Options{Logger: slog.Default()}}
	if err := election.Run(ctx, k, "/examples/leader", opt, lead); err != nil && ctx.Err() == nil {
		log.Fatal("leader: ", err)
	}
}

// lead works under one term.
func lead(ctx context.Context, t *election.Term) error {
	fmt.Printf("leading, token %#x\n", t.Token())
	<-ctx.Done()
	fmt.Println("stopping:", context.Cause(ctx))
	time.Sleep(100 * time.Millisecond) // finish what was begun; no other process leads before we return
	fmt.Println("stopped")
	return nil
}
