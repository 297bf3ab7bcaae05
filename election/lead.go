package election

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/operr"
)

// Work is what a leader does. ctx ends with the term, and then the work must return.
type Work func(ctx context.Context, t *Term) error

// Lead campaigns, does the work under the term, and hands over when the work has returned. When ctx ends, or the term
// is lost, the work's context ends, and Lead waits for the work to return, for Options.Grace at most.
//
// The error is the work's, joined with the loss of leadership, the failure to hand over, or ErrOverran if the work goes on. In that
// last case another may lead while it does, and the process should end. The work runs on a goroutine of its own.
func (e *Election) Lead(ctx context.Context, work Work) error {
	if work == nil {
		return operr.NoFunction("election", e.dir, "work")
	}
	t, err := e.Campaign(ctx)
	if err != nil {
		return err
	}
	return t.run(ctx, work).err()
}

// A termResult says how work under a term ended.
type termResult struct {
	worked     error // what the work returned; nil if it goes on
	inTerm     bool  // it returned before the term was over
	handedOver error // what Resign would return
}

func (r termResult) err() error {
	if errors.Is(r.handedOver, r.worked) { // the work says why it was to end
		return r.handedOver
	}
	return ending.Join(r.worked, r.handedOver)
}

// errVanished is the error of work that ended its goroutine instead of returning.
var errVanished = errors.New("the work has ended its goroutine")

// run does the work, and ends the term with it, or when ctx ends.
func (t *Term) run(ctx context.Context, work Work) termResult {
	defer context.AfterFunc(ctx, func() { t.end(context.Cause(ctx)) })()
	returned := make(chan termResult, 1)
	go func() { // ends with the work; ErrOverran says that it has not
		p := termResult{worked: errVanished}
		defer func() { returned <- p }()
		p.worked = t.Work(func(ctx context.Context) error {
			defer func() { p.inTerm = ctx.Err() == nil }()
			return work(ctx, t)
		})
	}()
	var p termResult
	select {
	case p = <-returned:
		t.end(ErrResigned)
		<-t.over
	case <-t.over:
		if !errors.Is(t.result, ErrOverran) {
			p = <-returned
		}
	}
	p.handedOver = t.result
	return p
}
