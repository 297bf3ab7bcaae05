package server

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// reapBatch is how many znodes the reaper deletes before it looks at the tree again. It waits for
// each batch to be on disk, so that it is never more than one batch's work for the committer.
const reapBatch = 100

// reap deletes, every ReapInterval, the containers that have lost their last child and the znodes
// that have outlived their time.
func (s *Server) reap() {
	tick := time.NewTicker(s.opts.ReapInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for s.ctx.Err() == nil && s.reapSome() == reapBatch {
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// reapSome deletes some, and returns how many.
func (s *Server) reapSome() int {
	s.state.RLock()
	paths := s.tree.Reapable(s.opts.wall().UnixMilli(), s.opts.NeverUsed.Milliseconds(), reapBatch)
	s.state.RUnlock()
	for i, path := range paths {
		r := requests.Get().(*request)
		r.op, r.received, r.single.Path = wire.OpDeleteContainer, s.now(), path
		var done chan struct{}
		if i == len(paths)-1 {
			done = make(chan struct{})
			r.done = done
		}
		if !s.queue.put(r) {
			return 0
		}
		if done != nil {
			<-done
		}
	}
	return len(paths)
}
