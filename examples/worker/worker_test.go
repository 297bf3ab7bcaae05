package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestJobsOfOneNameExcludeEachOther(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	running := 0 // the lock is all that guards it
	job := func(context.Context) error {
		running++
		if running > 1 {
			t.Error("two at once")
		}
		running--
		return nil
	}
	done := make(chan error)
	for _, name := range []string{"a", "b", "c"} {
		s := srv.Session(t, name)
		go func() { done <- Job(t.Context(), s, "report", job) }()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestAnExpiredSessionInterruptsTheJob(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	err := Job(t.Context(), srv.Session(t, "worker"), "report", func(ctx context.Context) error {
		srv.Link("worker").Expire()
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, ErrInterrupted) || !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("Job = %v, want the interruption and its reason", err)
	}
}

// The servers fall silent for minutes, and the test takes milliseconds.
func TestSilenceInterruptsTheJobBeforeAnotherCanRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		first, second := srv.Session(t, "first"), srv.Session(t, "second")
		var stopped, began time.Time
		firstDone, secondDone := make(chan error, 1), make(chan error, 1)
		go func() {
			firstDone <- Job(t.Context(), first, "report", func(ctx context.Context) error {
				srv.Link("first").Freeze()
				<-ctx.Done()
				stopped = time.Now()
				return nil
			})
		}()
		synctest.Wait()
		go func() {
			secondDone <- Job(t.Context(), second, "report", func(context.Context) error {
				began = time.Now()
				return nil
			})
		}()
		if err := <-firstDone; !errors.Is(err, ErrInterrupted) {
			t.Errorf("the first job: %v, want the interruption", err)
		}
		if err := <-secondDone; err != nil {
			t.Errorf("the second job: %v", err)
		}
		srv.Link("first").Heal()
		if !began.After(stopped) {
			t.Errorf("the second began at %v, the first was stopped at %v", began, stopped)
		}
	})
}
