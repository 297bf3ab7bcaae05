package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ensemble"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/notify"
	"github.com/lockkeeper/lockkeeper/internal/server/admin"
	"github.com/lockkeeper/lockkeeper/internal/server/gcpace"
	"github.com/lockkeeper/lockkeeper/internal/server/threads"
	"github.com/lockkeeper/lockkeeper/server"
)

// shutdownLimit is how long connections may take to end.
const shutdownLimit = 10 * time.Second

// serve runs a server until a signal ends it.
func serve(f serverFlags) error {
	log := f.log.logger()
	c, err := configure(f)
	if err != nil {
		return err
	}
	announce(log, &c)
	c.Server.Logger, c.TLS.Logger = log, log
	ports, err := listenAll(&c, f, func(address string, err error) {
		log.Warn("no admin port: choose another place with admin.serverPort, or none with admin.enableServer=false", "address", address, "err", err)
	})
	if err != nil {
		return err
	}
	defer ports.close()
	if err := secure(&c, f, &ports, log); err != nil {
		return err
	}

	var helpers sync.WaitGroup
	defer helpers.Wait()
	beside, cancel := context.WithCancel(context.Background()) // the helpers outlast the last answers
	defer cancel()
	helpers.Go(func() { threads.Run(beside) })
	helpers.Go(func() { gcpace.Run(beside) }) // while the data is read, too, which is when most is thrown away
	if !f.local {
		if err := ensemble.ApacheAt(c.Server.DataDir); err != nil { // it takes no lock on its directory that ours would find
			return exit.Errorf(exit.CannotCreate, "data directory %w", err)
		}
	}
	srv, err := server.Open(c.Server)
	if err != nil {
		return exit.Errorf(exit.CannotCreate, "data directory %s: %w", c.Server.DataDir, err)
	}
	defer srv.Close()
	ctx, stop := interruptible() // not before: to read much data takes long, and a signal may cut it off anywhere
	defer stop()
	page := admin.Handler(srv, admin.Options{CommandPath: c.Admin.CommandPath, Configuration: c.Public})
	serveHTTP(beside, &helpers, log, ports.admin, page)
	serveHTTP(beside, &helpers, log, ports.metrics, only("/metrics", page))

	doors := ports.doors()
	served := make(chan error, len(doors))
	for _, l := range doors {
		go func() { served <- srv.Serve(l) }()
	}
	log.Info("serving", append(ports.attrs(), "data", c.Server.DataDir, "version", readVersion().Version)...)
	tellManager(log, notify.Ready)
	helpers.Go(debug.FreeOSMemory) // what reading the data has left
	select {
	case err := <-served:
		return exit.Errorf(exit.Failure, "%w", err)
	case <-ctx.Done():
	}
	tellManager(log, notify.Stopping)
	log.Info("ending", "why", context.Cause(ctx))
	goodbye, cancelGoodbye := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancelGoodbye()
	err = srv.Shutdown(goodbye)
	for range doors {
		if e := <-served; e != nil && !errors.Is(e, server.ErrClosed) {
			err = e
		}
	}
	if err != nil {
		return exit.Errorf(exit.Failure, "%w", err)
	}
	return nil
}

// serveHTTP answers on l, if there is one, until ctx ends. That it cannot go on is no reason for the
// server to end.
func serveHTTP(ctx context.Context, wg *sync.WaitGroup, log *slog.Logger, l net.Listener, h http.Handler) {
	if l == nil {
		return
	}
	wg.Go(func() {
		if err := admin.Serve(ctx, l, h); err != nil {
			log.Error("HTTP port closed", "address", l.Addr().String(), "err", err)
		}
	})
}

// only lets requests for one path through to h.
func only(path string, h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+path, h)
	return mux
}

// tellManager tells the service manager. One that cannot be told is worth a line, not the service.
func tellManager(log *slog.Logger, state string) {
	if err := notify.Send(state); err != nil {
		log.Warn("service manager", "err", err)
	}
}
