// Command service answers requests that each change one customer's data, no two of one customer at once, in whatever
// process of the service they arrive:
//
//	service ADDRESS
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: service ADDRESS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// All requests share one session. The Keeper opens another one when that has expired.
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{Logger: slog.Default()})
	if err != nil {
		log.Fatal("service: ", err)
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal("service: ", err)
	}
	fmt.Printf("http://%s/\n", l.Addr())
	http.HandleFunc("POST /customers/{customer}", func(w http.ResponseWriter, r *http.Request) {
		if err := change(r.Context(), k, url.PathEscape(r.PathValue("customer"))); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	srv := &http.Server{}
	go srv.Serve(l)
	<-ctx.Done()
	srv.Shutdown(context.Background()) // returns when the requests are over
	k.Close(context.Background())
}

// change changes a customer's data under the customer's lock, within five seconds.
func change(ctx context.Context, k *client.Keeper, customer string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		m, err := lock.NewMutex(s, "/examples/service/"+customer, lock.Options{})
		if err != nil {
			return err
		}
		return m.Do(ctx, func(ctx context.Context) error { return ctx.Err() }) // read, change, write
	})
}
