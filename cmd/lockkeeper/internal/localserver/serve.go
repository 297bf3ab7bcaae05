package localserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/server"
)

// Sessions of a keeper. There is no network between it and its clients, so short timeouts make sense.
const (
	tick              = time.Second
	sessionTimeoutMin = time.Second
	sessionTimeoutMax = time.Minute

	// logStepBytes is the step by which its log grows: small, for there is little in it.
	logStepBytes = 1 << 20
)

const (
	// patience is how long a new keeper waits for one that is just ending, or that cannot be found until it has
	// written anew where it is.
	patience = 5 * time.Second
	// goodbyeLimit is how long connections may take to end.
	goodbyeLimit = 5 * time.Second
	// glanceInterval is how often a keeper looks whether its socket and its address are still what they were.
	glanceInterval = 3 * time.Second
)

// Serve runs a keeper until ctx ends, there has been no connection for idle, or its socket is taken away,
// as runtime directories are when their user has logged out. Zero idle is for ever. What is to be known
// by the command that has started it goes to ready, which is closed then.
func Serve(ctx context.Context, p Places, idle time.Duration, ready io.WriteCloser, log *slog.Logger) (err error) {
	told := false
	tell := func(text string) {
		if !told {
			told = true
			fmt.Fprintln(ready, text)
			ready.Close()
		}
	}
	defer func() {
		if err != nil {
			tell(err.Error())
		}
		tell(readyWord)
	}()

	ownUmask()
	outgrow()
	if err := p.makeState(); err != nil {
		return err
	}
	lock, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	return p.serve(ctx, lock, idle, func() { tell(readyWord) }, log)
}

// serve is Serve for the holder of the lock of these places.
func (p Places) serve(ctx context.Context, lock *os.File, idle time.Duration, ready func(), log *slog.Logger) error {
	l, err := p.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	socket := l.Addr().String()
	own, err := os.Lstat(socket)
	if err != nil {
		return err
	}
	srv, err := server.Open(server.Options{
		DataDir: p.data(), TickTime: tick, MinSessionTimeout: sessionTimeoutMin, MaxSessionTimeout: sessionTimeoutMax,
		PreAllocBytes: logStepBytes, Words: []string{"mntr", "conf"}, Logger: log, // the words for status and doctor
	})
	if err != nil {
		return err
	}
	defer srv.Close()
	if err := p.announce(socket); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	log.Info("local keeper ready", "socket", socket, "data", p.data(), "pid", os.Getpid())
	ready()

	why := await(ctx, srv, idle, func() error {
		if now, err := os.Lstat(socket); err != nil || !os.SameFile(now, own) {
			return errSocketGone
		}
		if err := p.rotateLog(os.Stdout, os.Stderr); err != nil {
			log.Warn("the log is too long and cannot be put aside", "err", err)
		}
		if p.isOurs(lock) {
			p.announce(socket) // if it cannot be written now, then the next time
		}
		return nil
	})
	log.Info("local keeper ends", "why", why)
	if errors.Is(why, errSocketGone) {
		l.SetUnlinkOnClose(false) // what has that name now is another keeper's
	}
	goodbye, cancel := context.WithTimeout(context.Background(), goodbyeLimit)
	defer cancel()
	err = srv.Shutdown(goodbye)
	if e := <-served; e != nil && !errors.Is(e, server.ErrClosed) {
		return e
	}
	return err
}

var (
	errTaken      = errors.New("the lock is taken")
	errIdle       = errors.New("no client has been connected for a while")
	errSocketGone = errors.New("its socket was taken away")
)

// await returns why a keeper should end, once it should. glance is called now and then, and may say so.
func await(ctx context.Context, srv *server.Server, idle time.Duration, glance func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alone := make(chan struct{})
	go func() {
		defer close(alone)
		if idle > 0 && srv.WaitIdle(ctx, idle) == nil {
			cancel(errIdle)
		}
	}()
	defer func() { cancel(nil); <-alone }()
	tick := time.NewTicker(glanceInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-srv.Done():
			return srv.Err()
		case <-tick.C:
			if err := glance(); err != nil {
				return err
			}
		}
	}
}
