package apache

import (
	"context"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

const (
	nudgeInterval = 100 * time.Millisecond
	nudgerTimeout = time.Minute // of its sessions, which outlast frozen servers
)

// KeepAwake asks every server for something, many times a second, until rest is called.
//
// A server of an ensemble of 3.8.0 may leave a commit lying until any client asks it for something: its
// CommitProcessor loses a wake-up, and its metrics then show one commit more that was queued than carried out. Clients
// ping, so they notice little; a test that speaks the protocol by hand, and does not, may wait for an answer until a session
// expires.
func (e *Ensemble) KeepAwake() (rest func()) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var nudgers sync.WaitGroup
	for _, srv := range e.Servers {
		s, err := client.Open(e.t.Context(), srv.addr, client.Options{SessionTimeout: nudgerTimeout})
		if err != nil {
			cancel()
			e.t.Fatal(err)
		}
		nudgers.Go(func() {
			for ctx.Err() == nil {
				s.Exists(ctx, "/") // its answer, and whether there is one, does not matter
				select {
				case <-ctx.Done():
				case <-time.After(nudgeInterval):
				}
			}
			closing, cancel := context.WithTimeout(context.Background(), nudgeInterval)
			defer cancel()
			s.Close(closing)
		})
	}
	return func() {
		cancel()
		nudgers.Wait()
	}
}
