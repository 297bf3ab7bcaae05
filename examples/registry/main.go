// Command registry is a service that clients find by its name (see caller). It is registered while it is healthy, which
// means here that a file is there:
//
//	registry FILE
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
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/discovery"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: registry FILE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{Logger: slog.Default()})
	if err != nil {
		log.Fatal("registry: ", err)
	}
	defer k.Close(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal("registry: ", err)
	}
	fmt.Printf("http://%s/\n", l.Addr())
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, l.Addr(), "answers", r.Host)
	})}
	go srv.Serve(l)
	healthy := func(context.Context) error {
		_, err := os.Stat(os.Args[1])
		return err
	}
	i := discovery.Instance{Name: "orders", Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
	// It returns when ctx has ended and the instance is registered no more.
	err = discovery.RegisterWhile(ctx, k, "/examples/services", i, healthy, 100*time.Millisecond, discovery.RegisterOptions{Logger: slog.Default()})
	srv.Shutdown(context.Background()) // clients that have found it before get their answers
	if err != nil {
		log.Fatal("registry: ", err)
	}
}
