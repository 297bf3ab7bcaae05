package election

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// The pause between two campaigns doubles from one to the other as long as terms are shorter than termGood.
const (
	pauseMin = 20 * time.Millisecond
	pauseMax = 500 * time.Millisecond // calm must bring a leader soon, whatever was before
	termGood = 10 * time.Second
)

// Run stands for election until the work returns in its term, or ctx ends. Whenever leadership is lost, or
// somebody resigns the term, it campaigns again, after a pause that grows while terms are short, and under a
// new session where the old one is over.
// open makes the sessions, client.Open perhaps; Run closes them. An error of open that says that no server
// could be reached in the time given is followed by another attempt.
//
// The error is the work's if it returned in its term or after ctx has ended; otherwise why there can be no
// further campaign: the cause of ctx's end, ErrOverran if the work goes on after its term, or what the
// servers refuse.
func Run(ctx context.Context, open func(context.Context) (*client.Session, error), path string, opt Options, work Work) error {
	c := &campaigner{open: open, path: path, opt: opt, work: work}
	defer c.close()
	for {
		again, err := c.campaign(ctx)
		if !again {
			return err
		}
		select {
		case <-time.After(c.pause()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A campaigner is one call of Run, and used by its goroutine alone.
type campaigner struct {
	open   func(context.Context) (*client.Session, error)
	path   string
	opt    Options
	work   Work
	s      *client.Session // nil between two
	rounds int             // in vain, since the last good term
}

// campaign campaigns once and leads. It reports whether to do so again, and otherwise why not.
func (c *campaigner) campaign(ctx context.Context) (again bool, err error) {
	if err := c.connect(ctx); err != nil {
		return unreachable(err) && ctx.Err() == nil, err
	}
	e, err := New(c.s, c.path, c.opt)
	if err != nil {
		return false, err
	}
	t, err := e.Campaign(ctx)
	if err != nil {
		return c.s.Err() != nil && !errors.Is(err, zk.ErrAuthFailed) && ctx.Err() == nil, err
	}
	began := time.Now()
	done := t.run(ctx, c.work)
	if time.Since(began) >= termGood {
		c.rounds = 0
	}
	switch {
	case errors.Is(done.handedOver, ErrOverran):
		return false, done.err()
	case done.inTerm || ctx.Err() != nil:
		return false, done.worked // what of the hand-over may be pending is settled with the session
	}
	e.opt.Lock.Logger.Info("campaigning again", "election", c.path, "work", done.worked)
	return true, nil
}

// connect sees to it that there is a session.
func (c *campaigner) connect(ctx context.Context) (err error) {
	if c.s != nil && c.s.Err() != nil {
		c.close()
	}
	if c.s == nil {
		c.s, err = c.open(ctx)
	}
	return err
}

// close ends the session, on time of its own, which is short.
func (c *campaigner) close() {
	if c.s != nil {
		c.s.Close(context.Background())
		c.s = nil
	}
}

// unreachable reports whether an error of open may be another's next time.
func unreachable(err error) bool {
	var open *client.OpenError
	return errors.As(err, &open) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrConnectionLoss)
}

// pause returns how long to wait before the next campaign, shortened by a random part of up to a half so
// that candidates do not march in step.
func (c *campaigner) pause() time.Duration {
	d := pauseMax
	if c.rounds < 16 {
		d = min(pauseMax, pauseMin<<c.rounds)
	}
	c.rounds++
	return d - rand.N(d/2+1)
}
