// Command leaderonly is a service with an endpoint that only the leader answers. The others say 503, so that a load
// balancer asks the next one:
//
//	leaderonly NAME
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
)

// term is our leadership; nil before the first.
var term atomic.Pointer[election.Term]

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: leaderonly NAME")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	http.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		t := term.Load()
		if t == nil || t.Cause() != nil { // Cause looks at the clock, so the answer is right until we are paused
			http.Error(w, "not the leader", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "the leader is %s, token %#x\n", os.Args[1], t.Token())
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal("leaderonly: ", err)
	}
	fmt.Printf("http://%s/\n", l.Addr())
	go http.Serve(l, nil)
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{Logger: slog.Default()})
	if err != nil {
		log.Fatal("leaderonly: ", err)
	}
	defer k.Close(context.WithoutCancel(ctx))
	opt := election.Options{ID: os.Args[1], Lock: lock.Options{Logger: slog.Default()}}
	err = election.Run(ctx, k, "/examples/leaderonly", opt, func(ctx context.Context, t *election.Term) error {
		term.Store(t)
		<-ctx.Done()
		return nil
	})
	if err != nil && ctx.Err() == nil {
		log.Fatal("leaderonly: ", err)
	}
}
