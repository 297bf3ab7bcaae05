package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// abandoning returns a server, a session and the mutex at /a.
func abandoning(t *testing.T) (*zktest.Server, *client.Session, *Mutex) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	m, err := NewMutex(s, "/a", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return srv, s, m
}

// What cannot be removed does not keep what is abandoned later, and is removed when it can be.
func TestCleanerPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, s, m := abandoning(t)
		for _, path := range []string{"/a", "/a/full", "/a/full/child", "/a/later"} {
			if _, err := s.Create(t.Context(), path, nil, zk.Persistent, nil); err != nil {
				t.Fatal(err)
			}
		}
		m.lock.cleaner.add(ownNodes{nodes: []string{"/a/full"}})
		time.Sleep(2 * time.Minute) // the pause is as long as it gets
		m.lock.cleaner.add(ownNodes{nodes: []string{"/a/later"}})
		synctest.Wait()
		if left := srv.Tree("/a/later"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if err := s.Delete(t.Context(), "/a/full/child", -1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(cleanerPauseMax)
		synctest.Wait()
		if left := srv.Tree("/a/full"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// What is known goes also if what is not known cannot be looked for.
func TestCleanerMayNotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, s, m := abandoning(t)
		id := newAttemptID()
		unknown := "/a/" + id.Prefix(queue.LockWord) + "0000000007"
		for _, path := range []string{"/a", "/a/known", unknown} {
			if _, err := s.Create(t.Context(), path, nil, zk.Persistent, nil); err != nil {
				t.Fatal(err)
			}
		}
		allow := func(perms zk.Perm) {
			if _, err := s.SetACL(t.Context(), "/a", []zk.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}, -1); err != nil {
				t.Fatal(err)
			}
		}
		allow(zk.PermAll &^ zk.PermRead)
		m.lock.cleaner.add(ownNodes{id: id, unknown: true})
		m.lock.cleaner.add(ownNodes{nodes: []string{"/a/known"}})
		synctest.Wait()
		if left := srv.Tree("/a/known"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		allow(zk.PermAll)
		time.Sleep(cleanerPauseMax)
		synctest.Wait()
		if left := srv.Tree(unknown); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// Options.QueueMax does not count what an earlier call has given up and the cleaner has not removed yet.
func TestQueueMaxCountsNothingThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, theirs := abandoning(t)
		h, err := theirs.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer h.Release(context.Background())
		ours, err := NewMutex(srv.Session(t, "ours"), theirs.Path(), Options{QueueMax: 1})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := ours.Lock(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want to have waited for the holder", err)
			}
		}
	})
}
