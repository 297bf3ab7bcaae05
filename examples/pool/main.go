// Command pool is a worker of a pool that shares out feeds: each feed is read by one worker, and when a worker comes or
// goes, only those feeds move that have to:
//
//	pool NAME FEED…
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
	"github.com/lockkeeper/lockkeeper/partition"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: pool NAME FEED…")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{Logger: slog.Default()})
	if err != nil {
		log.Fatal("pool: ", err)
	}
	defer k.Close(context.Background())
	opt := partition.Options{Settle: 200 * time.Millisecond}
	p, err := partition.Join(ctx, k, "/examples/pool", os.Args[1], os.Args[2:], read, opt)
	if err != nil {
		log.Fatal("pool: ", err)
	}
	select {
	case <-ctx.Done():
	case <-p.Done(): // as when the servers refuse the worker
		log.Fatal("pool: ", p.Err())
	}
	if err := p.Close(context.Background()); err != nil { // gives the feeds to the others
		log.Print("pool: ", err)
	}
}

// read reads a feed until the feed moves to another worker. After an error, it would be called again.
func read(ctx context.Context, feed string, hold *lock.Hold) error {
	fmt.Printf("begin %s, token %#x\n", feed, hold.Token())
	<-ctx.Done() // read and store, with the token where the store can check it
	fmt.Println("end", feed)
	return nil
}
