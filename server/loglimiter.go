package server

import (
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
)

// logEvery is how often at most a line that clients can provoke comes to the log.
const logEvery = 10 * time.Second

// A logLimiter keeps something that may happen at any rate from filling the log.
type logLimiter struct {
	mu struct {
		sync.Mutex
		next   time.Duration // on the server's clock
		unsaid int
	}
}

// due reports whether to log what happens now, and how often it happened since it was
// last logged, this time not counted.
func (d *logLimiter) due(now time.Duration) (unsaid int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now < d.mu.next {
		d.mu.unsaid++
		return 0, false
	}
	unsaid = d.mu.unsaid
	d.mu.next, d.mu.unsaid = now+logEvery, 0
	return unsaid, true
}

// logExcess notes in the log that a quota's limit was reached.
func (s *Server) logExcess(e tree.Excess) {
	unsaid, ok := s.quotaLog.due(s.now())
	if !ok {
		return
	}
	what, kind := "znodes", "soft"
	if e.Bytes {
		what = "bytes"
	}
	if e.Hard {
		kind = "hard"
	}
	s.log.Warn("quota exceeded", "path", e.Path, what, e.Reached, "limit", e.Limit, "kind", kind,
		"refused", e.Hard && s.opts.EnforceQuota, "unsaid", unsaid)
}
