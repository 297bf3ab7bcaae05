package inspect_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Numbers begin anew when a directory is made anew, so a name without an id may be another contender's by now (F47).
func TestF47_BreakTakesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, srv := t.Context(), zktest.New(t, zktest.Options{})
		a, b := srv.Session(t, "a"), srv.Session(t, "b")
		join := func() string {
			if err := a.EnsurePath(ctx, "/l", nil); err != nil {
				t.Fatal(err)
			}
			made := must[client.Created](t)(a.Create(ctx, "/l/lock-", nil, zk.EphemeralSequential, nil))
			return made.Path
		}
		first := join()
		seen := must[[]inspect.Contender](t)(inspect.Contenders(ctx, b, "/l"))
		if err := errors.Join(a.Delete(ctx, first, zk.AnyVersion), a.Delete(ctx, "/l", zk.AnyVersion)); err != nil {
			t.Fatal(err)
		}
		second := join()
		if first != second {
			t.Fatalf("the names are %s and %s: there is nothing to be tested", first, second)
		}
		if gone, err := inspect.Break(ctx, b, seen[0]); gone || err != nil {
			t.Errorf("Break of a contender that has left: %v, %v; want false and no error", gone, err)
		}
		if _, there, err := a.Exists(ctx, second); !there || err != nil {
			t.Errorf("the contender behind it has gone (%v)", err)
		}
		seen = must[[]inspect.Contender](t)(inspect.Contenders(ctx, b, "/l"))
		if gone, err := inspect.Break(ctx, b, seen[0]); !gone || err != nil {
			t.Errorf("Break of a contender that is there: %v, %v; want true and no error", gone, err)
		}
	})
}

// A contender that was looked at as a writer, and has been downgraded since, has not left.
func TestADowngradedHolderIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, srv := t.Context(), zktest.New(t, zktest.Options{})
		a, b := srv.Session(t, "a"), srv.Session(t, "b")
		m := must[*lock.RWMutex](t)(lock.NewRWMutex(a, "/rw", lock.Options{}))
		h := must[*lock.Hold](t)(m.Lock(ctx))
		defer h.Release(context.Background())
		seen := must[[]inspect.Contender](t)(inspect.Contenders(ctx, b, "/rw"))
		if err := h.Downgrade(ctx); err != nil {
			t.Fatal(err)
		}
		if asked, err := inspect.Revoke(ctx, b, seen[0]); !asked || err != nil {
			t.Errorf("Revoke: %v, %v; want true and no error", asked, err)
		}
		<-h.Revoked()
		if gone, err := inspect.Break(ctx, b, seen[0]); !gone || err != nil {
			t.Errorf("Break: %v, %v; want true and no error", gone, err)
		}
		<-h.Context().Done()
		if !errors.Is(h.Cause(), lock.ErrNodeDeleted) {
			t.Errorf("the hold has ended with %v, want lock.ErrNodeDeleted", h.Cause())
		}
		for what, ask := range map[string]func() (bool, error){
			"Revoke": func() (bool, error) { return inspect.Revoke(ctx, b, seen[0]) },
			"Break":  func() (bool, error) { return inspect.Break(ctx, b, seen[0]) },
		} {
			if there, err := ask(); there || err != nil {
				t.Errorf("%s of a contender that has left: %v, %v; want false and no error", what, there, err)
			}
		}
	})
}
