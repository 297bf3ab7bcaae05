package world

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
)

// runLead campaigns, leads and resigns.
func runLead(w *World, s Step) {
	w.take(s, dirOf("election", s.Key), alone, func(ctx context.Context, cs *client.Session) ([]holding, error) {
		opt := w.options(s)
		opt.Requeue = false
		e, err := election.New(cs, dirOf("election", s.Key), election.Options{Lock: opt})
		if err != nil {
			return nil, err
		}
		t, err := e.Campaign(ctx)
		if t == nil {
			return nil, err
		}
		return []holding{leading{t}}, err
	})
}

// leading is a term as a hold.
type leading struct{ *election.Term }

func (l leading) Release(ctx context.Context) error {
	err := l.Resign(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = lock.ErrReleasePending
	}
	return err
}
