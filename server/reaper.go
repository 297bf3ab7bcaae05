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
			s.reapAll()
		case <-s.ctx.Done():
			return
		}
	}
}

// reapAll looks at all containers and at all znodes with a time to live once, and deletes those whose time has come.
func (s *Server) reapAll() {
	r := s.tree.Reaper()
	for more := true; more && s.ctx.Err() == nil; {
		var paths []string
		s.state.RLock()
		paths, more = r.Next(s.opts.wall().UnixMilli(), s.opts.NeverUsed.Milliseconds(), pieceNames, reapBatch)
		s.state.RUnlock()
		if !s.reapThese(paths) {
			return
		}
	}
}

// reapThese deletes znodes, and returns when that is on disk. It reports false if the server has ended.
func (s *Server) reapThese(paths []string) bool {
	for i, path := range paths {
		r := requests.Get().(*request)
		r.op, r.received, r.single.Path = wire.OpDeleteContainer, s.now(), path
		var done chan struct{}
		if i == len(paths)-1 {
			done = make(chan struct{})
			r.done = done
		}
		if !s.queue.put(r) {
			return false
		}
		if done != nil {
			<-done
		}
	}
	return true
}
