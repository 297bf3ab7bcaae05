package lock

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A calm is what is known of a lock's directory by who had nobody to wait for there: nobody stood ahead of the claim with
// that number, nor behind it: who makes a claim by hand may give it a number that the server is yet to reach. The server
// counts the children of a directory as they are made, whatever they are called, and never those that go: the number that
// it appends to a name is that of those made before. So if the next claim of ours has the next number, nobody has come in
// between, and once the first claim is gone nobody is ahead of the second: it is granted without a listing.
//
// A directory that is deleted and made anew counts from the beginning. That does not go unnoticed: the directory is
// watched on the connection on which the second claim is made, and has been since before the first one went; with a claim
// in it, it cannot be deleted.
//
// Whoever has a calm, the session's nursery or an attempt or its grant, has it alone, and ends its watch or hands it on.
type calm struct {
	number int32
	ended  time.Time // when the claim went

	// On the directory; nil if it is not watched, and the calm spares nothing yet.
	watch *client.Watch
	asked *client.Pending[zk.Stat] // the request that sets watch, until it is known to be answered; otherwise nil
	conn  uint64                   // connection on which it was set
}

// calmLasts is how long a directory is watched for a claim that may come.
const calmLasts = 10 * youngTick

// A calmKey says for whose claims a calm is good: that a reader had nobody ahead to wait for does not mean that a
// writer had not, nor that nobody was there whom Options.OneKind would have refused to stand behind.
type calmKey struct {
	dir     string
	recipe  *recipe
	oneKind bool
}

func (e *entrance) calmKey() calmKey { return calmKey{e.dir, e.recipe, e.opt.OneKind} }

// lastCalmLocked returns what the last claim in the directory has left, nil if there is nothing.
func (e *entrance) lastCalmLocked() *calm {
	if n := nurseries.of[e.s]; n != nil {
		return n.calm[e.calmKey()]
	}
	return nil
}

// takeCalm returns the calm of the directory, which is the caller's now; nil if there is none that spares anything.
func (e *entrance) takeCalm() *calm {
	nurseries.Lock()
	defer nurseries.Unlock()
	c := e.lastCalmLocked()
	if c == nil || c.watch == nil {
		return nil
	}
	delete(nurseries.of[e.s].calm, e.calmKey())
	return c
}

// holds reports whether nobody is ahead of our claim with that number, which was made on a connection. Where a counter
// ends or wraps, the next number tells nothing; see queue.unsettled.
func (c *calm) holds(number int32, conn uint64) bool {
	return number == c.number+1 && conn == c.conn && !c.watch.Fired() && number >= 0 && !exhausting(number)
}

// drop ends the calm, if it is one.
func (c *calm) drop() {
	if c != nil && c.watch != nil {
		c.watch.Cancel()
	}
}

// enter joins the line, and returns it; without a listing, if it is known to be empty.
func (a *attempt) enter(ctx context.Context) (view, error) {
	var listed *listing
	if a.calm = a.e.takeCalm(); a.calm == nil {
		listed = a.ask(ctx)
	} else {
		p := a.s.Pipeline()
		a.created = a.create(p)
		p.Send(ctx)
	}
	v, err := a.join(ctx, listed)
	if err != nil {
		return v, err
	}
	if !v.calm {
		a.calm.drop()
		a.calm = nil
	}
	if v.last && a.e.room == nil { // a number of permits may change
		if a.calm == nil {
			a.calm = new(calm)
		}
		a.calm.number = numberOf(a.nodes[0])
	}
	return v, nil
}

// numberOf returns the number of a claim.
func numberOf(node string) int32 {
	number, _, _ := parseName(zk.Base(node))
	return number
}

// askCalm has the directory watched from before the grant's claim goes, if that is likely to spare something: the
// claim before it was ours, too, and went just now.
func (g *grant) askCalm(p *client.Pipeline) {
	c := g.calm
	if c == nil || c.watch != nil {
		return
	}
	nurseries.Lock()
	last := g.e.lastCalmLocked()
	likely := last != nil && last.number+1 == c.number && time.Since(last.ended) < calmLasts
	nurseries.Unlock()
	if likely {
		c.asked, c.watch = p.WatchExists(g.e.dir)
	}
}

// leaveCalm leaves the calm of a grant, whose claim is known to have gone, to the next attempt.
func (g *grant) leaveCalm(ctx context.Context) {
	c := g.calm
	if c == nil {
		return
	}
	if g.calm = nil; c.asked != nil { // and answered before the deletion
		if _, err := c.asked.Wait(ctx); err != nil {
			c.watch = nil
		}
		c.conn, c.asked = c.asked.Conn(), nil
	}
	c.ended = time.Now()
	g.e.keep(c).drop()
}

// keep has the session's nursery keep c until somebody takes it. It returns what is not kept any more: what was kept
// before, or c if there is no nursery for it.
func (e *entrance) keep(c *calm) (former *calm) {
	nurseries.Lock()
	defer nurseries.Unlock()
	n := nurseries.of[e.s]
	if n == nil && c.watch != nil {
		n = nurseryLocked(e.s)
	}
	if n == nil {
		return c
	}
	former = n.calm[e.calmKey()]
	n.calm[e.calmKey()] = c
	return former
}
