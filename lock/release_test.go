package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F08: a release does not wait longer than Options.CleanupTimeout for servers that do not answer, whatever its context; the
// znode goes in the background.
func TestF08_ReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "s")
		mutex := func(path string, limit time.Duration) *lock.Mutex {
			m, err := lock.NewMutex(s, path, lock.Options{CleanupTimeout: limit})
			must(t, nil, err)
			return m
		}
		one, err := mutex("/locks/a", time.Second).Lock(t.Context())
		must(t, one, err)
		both, err := lock.NewAll(mutex("/locks/b", time.Second), mutex("/locks/c", 2*time.Second))
		must(t, nil, err)
		several, err := both.Lock(t.Context())
		must(t, nil, err)
		srv.Link("s").Freeze()
		for name, release := range map[string]func(context.Context) error{"1s": one.Release, "2s": several.Release} {
			began := time.Now()
			err := release(context.Background())
			if took := time.Since(began).String(); took != name {
				t.Errorf("release returned after %s, want %s", took, name)
			}
			if !errors.Is(err, lock.ErrReleasePending) || !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("release = %q, want ErrReleasePending on one line", err)
			}
			srv.Link("s").Heal()
			synctest.Wait()
			srv.Link("s").Freeze()
		}
		srv.Link("s").Heal()
		time.Sleep(time.Second)
		if left := srv.Tree("/locks/a/_"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
