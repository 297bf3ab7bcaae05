// Command service answers requests that each change one customer's data, no two of one customer at once, whichever
// process of the service they come to:
//
//	service ADDRESS
//
// All requests share one session. A session that has expired does not come back, so the next request opens another.
package main

import (
	"context"
	"errors"
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
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: service ADDRESS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1]); err != nil {
		log.Fatal("service: ", err)
	}
}

func serve(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/\n", l.Addr())
	v := service{turn: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /customers/{customer}", v.change)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	defer context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- errors.Join(srv.Shutdown(ctx), v.close(ctx)) // requests first, then their locks
	})()
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return <-stopped
}

// A service has the session of its requests.
type service struct {
	turn chan struct{}   // has an element while a request uses s
	s    *client.Session // nil before the first request
}

// session returns the session, and opens one if there is none that lives.
func (v *service) session(ctx context.Context) (*client.Session, error) {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-v.turn }()
	if v.s == nil || v.s.Err() != nil {
		s, err := client.Open(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{Logger: slog.Default()})
		if err != nil {
			return nil, err
		}
		v.s = s
	}
	return v.s, nil
}

// close closes the session, and keeps requests that are left from opening another.
func (v *service) close(ctx context.Context) error {
	v.turn <- struct{}{}
	if v.s == nil {
		return nil
	}
	return v.s.Close(ctx)
}

// change serves a request.
func (v *service) change(w http.ResponseWriter, r *http.Request) {
	asking, cancel := context.WithTimeout(r.Context(), 5*time.Second) // bounds the wait for the lock, and not the work
	defer cancel()
	s, err := v.session(asking)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	// Escaped, a name cannot lead out of the directory.
	m, err := lock.NewMutex(s, "/examples/service/"+url.PathEscape(r.PathValue("customer")), lock.Options{Label: r.RemoteAddr})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	hold, err := m.Lock(asking)
	if err != nil { // another process has it for so long, or the session is over: the client may try again
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if err := hold.Do(r.Context(), work); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "changed")
}

// work changes the customer's data.
func work(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
