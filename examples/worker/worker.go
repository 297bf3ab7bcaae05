// Package worker is code that locks, as a program has it. Its test shows how such code is tested without a
// server to install: with zktest, and with time that takes no time.
package worker

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

// ErrInterrupted is returned when the lock was lost while the job ran, so that another worker may have begun it, too.
var ErrInterrupted = errors.New("interrupted")

// Job runs do under the lock of a job's name.
func Job(ctx context.Context, s *client.Session, name string, do func(ctx context.Context) error) error {
	m, err := lock.NewMutex(s, "/jobs/"+name, lock.Options{Label: name})
	if err != nil {
		return err
	}
	err = m.Do(ctx, do)
	if errors.Is(err, lock.ErrLost) {
		return errors.Join(ErrInterrupted, err)
	}
	return err
}
