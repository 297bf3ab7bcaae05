package lock

import (
	"context"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A listing is the request that lists the line. Its answer is read where it stands, into queues whose memory
// is used again and again: it may be long, and an attempt keeps little of it.
type listing struct {
	*client.Pending[zk.Stat]
	seen listed // not to be touched before the answer has come
}

// listed is the claims of a directory: those of the recipe's line, and the others if Options.OneKind asks
// for them.
type listed struct{ own, alien *queue }

// list adds the request that lists the line.
func (e *entrance) list(p *client.Pipeline) *listing {
	l := new(listing)
	l.Pending = p.EachChild(e.dir, func(name string) {
		if l.seen.own == nil {
			l.seen.own = newQueue()
		}
		l.seen.own.see(name, e.recipe.heeds)
		if e.opt.OneKind {
			if l.seen.alien == nil {
				l.seen.alien = newQueue()
			}
			l.seen.alien.see(name, ^e.recipe.heeds)
		}
	})
	return l
}

// result waits for the answer. With an error, nothing is listed.
func (l *listing) result(ctx context.Context) (listed, error) {
	stat, err := l.Wait(ctx)
	if err != nil {
		return listed{new(queue), new(queue)}, err
	}
	for _, q := range []**queue{&l.seen.own, &l.seen.alien} {
		if *q == nil {
			*q = newQueue()
		}
		(*q).sort()
	}
	l.seen.own.spent = counterSpent(stat)
	return l.seen, nil
}

// queues are those that nobody uses any more.
var queues = sync.Pool{New: func() any { return new(queue) }}

func newQueue() *queue { return queues.Get().(*queue) }

// queueKeep is how many bytes of names a queue that is kept may have room for.
const queueKeep = 64 << 10

// free says that nobody uses q any more: its memory is for another listing.
func (q *queue) free() {
	if cap(q.names) <= queueKeep {
		*q = queue{line: q.line[:0], names: q.names[:0]}
		queues.Put(q)
	}
}
