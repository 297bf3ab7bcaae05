package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// AddressDefault is where to listen by default: ZooKeeper's port, but this machine alone.
const AddressDefault = "127.0.0.1:8080"

// Limits of the port. Its connections take descriptors that clients might want.
const (
	connectionsMax  = 64
	headerBytesMax  = 16 << 10
	headerTimeout   = 5 * time.Second
	requestTimeout  = 10 * time.Second
	answerTimeout   = 30 * time.Second
	idleTimeout     = 30 * time.Second // admin.idleTimeout of ZooKeeper
	farewellTimeout = time.Second      // for answers that are being given when Serve ends
)

// Serve answers on l with h until ctx ends, and closes l. At a loopback address it refuses requests for other hosts. The error is nil
// if ctx was the reason. When it returns, h answers no request any more.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	guests := newGuests(l)
	srv := &http.Server{
		Handler: guests.trackRequests(checkHost(h)), ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout,
		WriteTimeout: answerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		ConnState: guests.connState, ConnContext: guests.label,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(guests) }()
	defer guests.inside.Wait()
	select {
	case err := <-served:
		srv.Close()
		return err
	case <-ctx.Done():
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
	defer cancel()
	if err := srv.Shutdown(bye); err != nil {
		srv.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
