package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Two sessions with different chroots have different names for a lock, and an All goes by the servers'.
func TestAnAllOfTwoChroots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, srv := t.Context(), zktest.New(t, zktest.Options{})
		root := srv.Session(t, "root")
		if err := root.EnsurePath(ctx, "/z", nil); err != nil {
			t.Fatal(err)
		}
		below, err := client.Open(ctx, zktest.Servers+"/z", client.Options{Dial: srv.Link("below").Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer below.Close(context.Background())
		mutex := func(s *client.Session, path string) *lock.Mutex {
			m, err := lock.NewMutex(s, path, lock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		if _, err := lock.NewAll(mutex(root, "/z/1"), mutex(below, "/1")); !errors.Is(err, lock.ErrDuplicate) {
			t.Errorf("one lock under two names: %v, want lock.ErrDuplicate", err)
		}
		all, err := lock.NewAll(mutex(below, "/1"), mutex(root, "/a/2"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := all.Paths(), []string{"/a/2", "/1"}; !slices.Equal(got, want) {
			t.Errorf("the locks are taken in the order %q, want %q: others know them as /a/2 and /z/1", got, want)
		}
		if _, err := lock.NewAll(mutex(below, "/1"), mutex(root, "/1")); err != nil {
			t.Errorf("two locks of one name, below different chroots: %v", err)
		}
	})
}
