package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
)

// A wait is one contender that waits for another, as JSON shows it; see lock.Deadlock.
type wait struct {
	Path   string `json:"path"`   // of the lock
	Waiter string `json:"waiter"` // path of its node
	For    string `json:"for"`    // path of the node ahead of it
}

// cyclesThrough returns the cycles of contenders that wait for each other through any of the locks; none if
// there is too much to look at.
func cyclesThrough(ctx context.Context, s *client.Session, all []inspect.Snapshot) ([]lock.Deadlock, error) {
	var paths []string
	for _, snap := range all {
		if len(snap.Waiters()) > 0 {
			paths = append(paths, snap.Path)
		}
	}
	cycles, err := inspect.Deadlocks(ctx, s, paths...)
	if errors.Is(err, inspect.ErrTooManyWaits) {
		return nil, nil
	}
	return cycles, err
}

// waitsThrough returns those of the cycles that go through the lock at path, as JSON shows them.
func waitsThrough(path string, cycles []lock.Deadlock) (shown [][]wait) {
	for _, d := range cycles {
		if !slices.ContainsFunc(d, func(w lock.Wait) bool { return w.Path == path }) {
			continue
		}
		waits := make([]wait, len(d))
		for i, w := range d {
			waits[i] = wait{Path: w.Path, Waiter: w.Waiter.Node, For: w.For.Node}
		}
		shown = append(shown, waits)
	}
	return shown
}

// printCycles prints a line for each cycle.
func printCycles(w io.Writer, cycles []lock.Deadlock) error {
	for _, d := range cycles {
		if _, err := fmt.Fprintf(w, "deadlock: %s\n", printable.Text(d.String())); err != nil {
			return err
		}
	}
	return nil
}
