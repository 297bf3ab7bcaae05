package lock_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// On the path of another library's semaphore, whose permits are elsewhere or have no numbers, no lock is granted by mistake, and
// nothing is stored there. It is shown for what it is.
func TestForeignSemaphores(t *testing.T) { synctest.Test(t, testForeignSemaphores) }

func testForeignSemaphores(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	put := func(path, data string, mode zk.Mode) {
		t.Helper()
		if err := s.EnsurePath(t.Context(), zk.Parent(path), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), path, []byte(data), mode, nil); err != nil {
			t.Fatal(err)
		}
	}
	const lease = "_c_01234567-89ab-cdef-0123-456789abcdef-lease-"
	put("/curator/locks", "", zk.Persistent)
	put("/curator/leases", "", zk.Persistent)
	put("/curator/leases/"+lease, "10.0.0.7", zk.EphemeralSequential)
	put("/kazoo", "2", zk.Persistent)
	put("/kazoo/0123456789abcdef0123456789abcdef", "ident", zk.Ephemeral)
	put("/kazoo/other", "", zk.Persistent)

	for path, kind := range map[string]lock.Kind{"/curator": inspect.KindCuratorSemaphore, "/kazoo": inspect.KindKazooSemaphore} {
		semaphore, err := lock.NewSemaphore(s, path, 2, lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = semaphore.TryAcquire(t.Context())
		var other *lock.KindError
		if !errors.As(err, &other) || other.Kind != kind {
			t.Errorf("a permit of %s: %v", path, err)
		}
		synctest.Wait() // the claim of the attempt is removed
		snap, err := inspect.Look(t.Context(), s, path)
		if err != nil || snap.Kind != kind || len(snap.Holders()) != 1 || len(snap.Waiters()) > 0 {
			t.Errorf("Look %s = %+v, %v", path, snap, err)
		}
		if got := snap.Holders()[0].Describe(); got != `"10.0.0.7" session `+s.String() && got != `"ident" session `+s.String() {
			t.Errorf("the holder of %s is described as %s", path, got)
		}
	}
	if data, _, err := s.Get(t.Context(), "/curator"); len(data) > 0 || err != nil {
		t.Errorf("in Curator's directory is stored %q, %v", data, err)
	}
	for _, allow := range []bool{false, true} {
		mutex, err := lock.NewMutex(s, "/curator", lock.Options{AllowOtherKinds: allow})
		if err != nil {
			t.Fatal(err)
		}
		_, err = mutex.TryLock(t.Context())
		synctest.Wait()
		if allow == (err != nil) || errors.Is(err, lock.ErrOtherKind) == allow {
			t.Errorf("a mutex there, AllowOtherKinds %v: %v", allow, err)
		}
	}
}

// With AllowOtherKinds it does not matter whose the directories are, nor whether they may be read.
func TestAMutexBesideASemaphoreThatMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		for _, path := range []string{"/curator", "/curator/locks", "/curator/leases"} {
			acl := zk.OpenACL()
			acl[0].Perms &^= zk.PermRead
			if path == "/curator" {
				acl = nil
			}
			_, err := s.Create(t.Context(), path, nil, zk.Persistent, acl)
			must(t, nil, err)
		}
		for _, allow := range []bool{false, true} {
			m, err := lock.NewMutex(s, "/curator", lock.Options{AllowOtherKinds: allow})
			must(t, nil, err)
			h, err := m.Lock(t.Context())
			switch {
			case allow && err != nil:
				t.Errorf("with AllowOtherKinds: %v", err)
			case allow:
				must(t, nil, h.Release(t.Context()))
			case !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "/curator/leases"):
				t.Errorf("without AllowOtherKinds: %v", err)
			}
		}
	})
}

// Locks at /a/locks and /a/leases do not make a semaphore of a lock at /a.
func TestLocksWithTheNamesOfASemaphoresParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		for _, path := range []string{"/a", "/a/locks", "/a/leases", "/a"} {
			m, err := lock.NewMutex(s, path, lock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.TryLock(t.Context()); path != "/a" && err != nil || path == "/a" && err != nil && errors.Is(err, lock.ErrOtherKind) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

// A client of kazoo cannot hear that it is asked to give up, and its data would be lost.
func TestRevokeOfKazoos(t *testing.T) {
	s := zktest.New(t, zktest.Options{}).Session(t, "s")
	if err := s.EnsurePath(t.Context(), "/l", nil); err != nil {
		t.Fatal(err)
	}
	made, err := s.Create(t.Context(), "/l/0123456789abcdef0123456789abcdef__lock__", []byte("ident"), zk.EphemeralSequential, nil)
	if err != nil {
		t.Fatal(err)
	}
	held, err := inspect.Contenders(t.Context(), s, "/l")
	if err != nil || len(held) != 1 {
		t.Fatal(held, err)
	}
	if asked, err := inspect.Revoke(t.Context(), s, held[0]); asked || !errors.Is(err, inspect.ErrCannotHear) {
		t.Errorf("Revoke = %v, %v", asked, err)
	}
	if data, _, err := s.Get(t.Context(), made.Path); string(data) != "ident" || err != nil {
		t.Errorf("its data are %q, %v", data, err)
	}
	if gone, err := inspect.Break(t.Context(), s, held[0]); !gone || err != nil {
		t.Errorf("Break = %v, %v", gone, err)
	}
}

// The holders of a kazoo semaphore are shown in the order in which they came, whatever their names are.
func TestKazoosHoldersAreInOrder(t *testing.T) {
	s := zktest.New(t, zktest.Options{}).Session(t, "s")
	if _, err := s.Create(t.Context(), "/l", []byte("3"), zk.Persistent, nil); err != nil {
		t.Fatal(err)
	}
	names := []string{"b123456789abcdef0123456789abcdef", "a123456789abcdef0123456789abcdef", "c123456789abcdef0123456789abcdef"}
	for _, name := range names {
		if _, err := s.Create(t.Context(), "/l/"+name, nil, zk.Ephemeral, nil); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := inspect.Look(t.Context(), s, "/l")
	if err != nil || len(snap.Holders()) != len(names) {
		t.Fatal(snap, err)
	}
	for i, c := range snap.Holders() {
		if c.Node != "/l/"+names[i] || c.Place != i {
			t.Errorf("%s is holder %d, at place %d", c.Node, i, c.Place)
		}
	}
}
