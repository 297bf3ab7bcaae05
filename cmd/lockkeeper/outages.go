package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

// serverAgain says that what noServer has said is over.
const serverAgain = "there is a server again"

// noServer says since when there is no server, and why.
func noServer(st client.State) string {
	return fmt.Sprintf("no server since %s: %v", st.Since.Format(time.TimeOnly), st.Cause)
}

// tellOutages tells say when no server has been there for a while, and when there is one again, until ctx ends or stop is called.
func tellOutages(ctx context.Context, k *client.Keeper, say func(string)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	told := false
	look := func(ctx context.Context, s *client.Session) error {
		for ctx.Err() == nil {
			st, changed := s.State()
			var late <-chan time.Time
			switch {
			case st.Phase == client.Connected && told:
				told = false
				say(serverAgain)
			case st.Phase == client.Disconnected && !told:
				late = time.After(watchPatience - time.Since(st.Since))
			}
			select {
			case <-changed:
			case <-late:
				told = true
				say(noServer(st))
			case <-s.Done():
				return s.Err()
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
	go func() {
		defer close(done)
		k.Run(ctx, look) // with one session after the other
	}()
	return func() {
		cancel()
		<-done
	}
}
