package election

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
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
// that ctx has ended, whether it led then or not, that the Keeper has, ErrOverran if the work goes on after its term, or what
// the servers refuse. Keeper.Close ends the work's context too, and the session once Run has returned, within the limits of that
// Close. The claim of a candidate that stops waiting is removed in the background, by Keeper.Close at the latest.
func Run(ctx context.Context, k *client.Keeper, path string, opt Options, work Work) error {
	if err := operr.NoKeeper("election", path, k); err != nil {
		return err
	}
	if work == nil {
		return operr.NoFunction("election", path, "work")
	}
	joined, leave, err := bridge.Join(k, ctx) // ends with the Keeper too
	if err != nil {
		return err
	}
	defer leave()
	for rounds := 0; ; rounds++ { // campaigns since the last term of termGood
		s, err := k.Session(ctx)
		if err != nil {
			return err
		}
		opt := opt
		if rounds > 0 { // New has found that the margin is right; a later session, or a later server, may grant a shorter timeout
			opt.Margin = min(opt.Margin, s.Timeout()/3)
		}
		e, err := New(s, path, opt)
		if err != nil {
			return err
		}
		t, err := e.Campaign(joined)
		again := ctx.Err() == nil && (s.Err() != nil || k.Err() != nil)
		if err == nil {
			began := time.Now()
			again, err = t.run(joined, work).next(ctx)
			if time.Since(began) >= termGood {
				rounds = 0
			}
		}
		switch {
		case !again:
			return err
		case k.Err() != nil:
			continue // Session says why
		}
		e.opt.Lock.Logger.Info("campaigning again", "election", path, "cause", err)
		d := min(pauseMax, pauseMin<<min(rounds, 16)) // which does not overflow
		select {
		case <-time.After(d - rand.N(d/2+1)): // shortened by a random part, so that candidates do not march in step
		case <-joined.Done():
			if ctx.Err() != nil {
				return ending.Of(ctx)
			}
		}
	}
}

// next reports whether Run campaigns again after the term, and why or why not. ctx is that of Run.
func (r termResult) next(ctx context.Context) (again bool, err error) {
	switch {
	case errors.Is(r.handedOver, ErrOverran):
		return false, r.err()
	case r.inTerm && errors.Is(r.worked, ErrResigned) && ctx.Err() == nil:
		return true, r.worked
	case r.inTerm, ctx.Err() != nil && r.worked != nil:
		return false, r.worked // what of the hand-over may be pending is removed in the background
	case ctx.Err() != nil:
		return false, ending.Of(ctx) // as for a candidate that does not lead
	}
	return true, r.err()
}
