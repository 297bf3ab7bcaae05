package ending

import (
	"context"
	"sync"
	"time"
)

// Pause waits for d, and reports whether ctx still lives.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// AllEnded returns a channel that is closed when the goroutines of wg have ended.
func AllEnded(wg *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	return done
}
