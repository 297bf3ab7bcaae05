package engine

import (
	"sync"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

// outboxMax is how many notes may wait for a front that does not read. Those that matter are five:
// granted, revoked, lost, a notice, and the last one; the rest is dropped while others wait.
const outboxMax = 10

// An outbox writes notes to the front without making the engine wait for it.
type outbox struct {
	queue chan link.Note // sent by any goroutine, closed by close, received by the writer
	wg    sync.WaitGroup
}

func newOutbox(w *link.Writer) *outbox {
	o := &outbox{queue: make(chan link.Note, outboxMax)}
	o.wg.Go(func() {
		for n := range o.queue {
			w.Send(n) // a dead front shows in the orders
		}
	})
	return o
}

// send sends a note. News of the line, and of the session, are dropped while older notes wait: there will be newer ones.
func (o *outbox) send(n link.Note) {
	if (n.Is == link.IsWaiting || n.Is == link.IsNotice || n.Is == link.IsCutOff) && len(o.queue) > outboxMax/2 {
		return
	}
	o.queue <- n
}

// close waits until everything is written.
func (o *outbox) close() {
	close(o.queue)
	o.wg.Wait()
}
