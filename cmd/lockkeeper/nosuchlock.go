package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// directoriesMax is how many znodes with children are looked at in a search for locks below a path.
const directoriesMax = 10_000

// walkBatch is how many znodes are listed with one write.
const walkBatch = 100

// wantLock returns an error if there is no znode at the path of a lock, which names locks that may have been meant.
func wantLock(ctx context.Context, s *client.Session, lockPath string) error {
	_, there, err := s.Exists(ctx, lockPath)
	if there || err != nil {
		return err
	}
	meant, err := namesake(ctx, s, lockPath)
	if err != nil {
		return err
	}
	if meant == "" {
		names, _, err := s.Children(ctx, zk.Parent(lockPath))
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
			return err
		}
		if similar := similarTo(path.Base(lockPath), names); similar != "" {
			meant = fmt.Sprintf(" (did you mean %s?)", printable.Text(lockName(zk.Parent(lockPath)+"/"+similar)))
		}
	}
	return exit.Errorf(exit.NoSuchLock, "%s: no such lock%s%s", lockName(lockPath), asked(s), meant)
}

// similarTo returns the name that differs least from the wanted one, or "" if all differ much.
func similarTo(wanted string, names []string) string {
	type found struct {
		name   string
		differ int
	}
	var close []found
	for _, name := range names {
		d := distance(wanted, name)
		if d <= min(max(suggestionsMax, len(wanted)/4), len(wanted)-1) || len(wanted) > suggestionsMax && strings.HasPrefix(name, wanted) {
			close = append(close, found{name, d})
		}
	}
	if len(close) == 0 {
		return ""
	}
	return slices.MinFunc(close, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.differ, b.differ), -cmp.Compare(commonPrefix(a.name, wanted), commonPrefix(b.name, wanted)), cmp.Compare(a.name, b.name))
	}).name
}

// commonPrefix is how many bytes a and b have in common at their beginning.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// distance is in how many bytes a and b differ: the number of insertions, deletions and replacements between them.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// withoutParts leaves out the two directories of a semaphore of Curator that is shown itself.
func withoutParts(all []inspect.Snapshot) []inspect.Snapshot {
	semaphores := map[string]bool{}
	for _, snap := range all {
		semaphores[snap.Path] = snap.Kind == inspect.KindCuratorSemaphore
	}
	return slices.DeleteFunc(all, func(snap inspect.Snapshot) bool {
		name := zk.Base(snap.Path)
		return (name == "leases" || name == "locks") && semaphores[zk.Parent(snap.Path)]
	})
}

// locksBelow returns the locks below a path that are in use, sorted by path. If some of the znodes may not be read,
// the error is zk.ErrNoAuth and names them, and the others are returned.
func locksBelow(ctx context.Context, s *client.Session, above string) ([]inspect.Snapshot, error) {
	dirs, hidden := []string(nil), error(nil)
	for level := []string{above}; len(level) > 0; {
		var next []string
		for batch := range slices.Chunk(level, walkBatch) {
			p := s.Pipeline()
			pending := make([]*client.Pending[client.Listing], len(batch))
			for i, at := range batch {
				pending[i] = p.Children(at)
			}
			p.Send(ctx)
			for i, at := range batch {
				list, err := pending[i].Wait(ctx)
				switch {
				case errors.Is(err, zk.ErrNoAuth):
					hidden = errors.Join(hidden, err)
					continue
				case errors.Is(err, zk.ErrNoNode), at == reservedPath:
					continue
				case err != nil:
					return nil, err
				case len(list.Names) > 0 && at != above:
					dirs = append(dirs, at)
				}
				if len(dirs) > directoriesMax {
					return nil, exit.Errorf(exit.Usage, "locks %s: more than %d znodes below it have children (name a path further down)", above, directoriesMax)
				}
				for _, name := range list.Names {
					next = append(next, zk.Join(at, name))
				}
			}
		}
		level = next
	}
	slices.Sort(dirs)
	var found []inspect.Snapshot
	for _, dir := range dirs {
		snap, err := inspect.Look(ctx, s, dir)
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			hidden = errors.Join(hidden, err)
		case err != nil:
			return nil, err
		case len(snap.Contenders) > 0:
			found = append(found, snap)
		}
	}
	return found, hidden
}
