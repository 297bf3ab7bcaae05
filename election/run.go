package election

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/operr"
)

// The pause between two campaigns doubles from one to the other as long as terms are shorter than termGood.
const (
	pauseMin = 20 * time.Millisecond
	pauseMax = 500 * time.Millisecond // once nothing fails any more, a leader must come soon
	termGood = 10 * time.Second
)

// Run campaigns and does the work as the leader, until the work returns during its term, or until ctx ends. Whenever
// leadership is lost, or the term is resigned, it campaigns again: after a pause of half a second at most, which grows
// while terms are short, and under the next session of the Keeper if the old one is over.
//
// Work that returns ErrResigned during its term gives leadership up, and Run campaigns again. Otherwise the error is the work's
// if the work returned during its term, or if ctx had ended and the work failed. In all other cases it says why Run gives up:
// that ctx has ended, whether it led then or not, that the Keeper has, ErrOverran if the work goes on after its term, or what the
// servers refuse. The claim of a candidate that stops waiting is removed in the background, by Keeper.Close at the latest.
func Run(ctx context.Context, k *client.Keeper, path string, opt Options, work Work) error {
	if err := operr.NoKeeper("election", path, k); err != nil {
		return err
	}
	if work == nil {
		return operr.NoFunction("election", path, "work")
	}
	log := cmp.Or(opt.Lock.Logger, slog.New(slog.DiscardHandler))
	c := &campaigner{k: k, path: path, opt: opt, work: work}
	for {
		again, err := c.campaign(ctx)
		if !again {
			return err
		}
		log.Info("campaigning again", "election", path, "cause", err)
		d := min(pauseMax, pauseMin<<min(c.rounds, 16)) // which does not overflow
		c.rounds++
		select {
		case <-time.After(d - rand.N(d/2+1)): // shortened by a random part, so that candidates do not march in step
		case <-ctx.Done():
			return ending.Of(ctx)
		}
	}
}

// A campaigner is one call of Run, and used by its goroutine alone.
type campaigner struct {
	k      *client.Keeper
	path   string
	opt    Options
	work   Work
	rounds int // campaigns since the last term of termGood
}

// campaign campaigns once and leads. It reports whether to do so again, and why or why not.
func (c *campaigner) campaign(ctx context.Context) (again bool, err error) {
	s, err := c.k.Session(ctx)
	if err != nil {
		return false, err
	}
	opt := c.opt
	if c.rounds > 0 { // New has found the margin right before; a later session, or a later server, may grant a shorter timeout
		opt.Margin = min(opt.Margin, s.Timeout()/3)
	}
	e, err := New(s, c.path, opt)
	if err != nil {
		return false, err
	}
	t, err := e.Campaign(ctx)
	if err != nil {
		return s.Err() != nil && ctx.Err() == nil, err
	}
	began := time.Now()
	done := t.run(ctx, c.work)
	if time.Since(began) >= termGood {
		c.rounds = 0
	}
	switch {
	case errors.Is(done.handedOver, ErrOverran):
		return false, done.err()
	case done.inTerm && errors.Is(done.worked, ErrResigned) && ctx.Err() == nil:
		return true, done.worked
	case done.inTerm, ctx.Err() != nil && done.worked != nil:
		return false, done.worked // what of the hand-over may be pending is removed in the background
	case ctx.Err() != nil:
		return false, ending.Of(ctx) // as for a candidate that does not lead
	}
	return true, done.err()
}
