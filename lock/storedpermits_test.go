package lock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A watch on the number of permits is kept in mind until it is cancelled, also by a waiter that leaves before the
// answer comes: the server may set it yet.
func TestWatchOfRoomIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "s")
		m, err := NewSemaphore(s, "/locks/a", 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := newAttempt(m.fair, 1, false, nil)
		p := s.Pipeline()
		a.watchPermits(p)
		srv.Link("s").Freeze()
		p.Send(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.readPermits(ctx); err == nil {
			t.Fatal("an answer has come from a server that is cut off")
		}
		if a.knownPermits.watch == nil {
			t.Error("the watch is not cancelled")
		}
		srv.Link("s").Heal()
	})
}

// A directory that is made for a number gets the ACL of the semaphore's options. Curator's has none to be kept in.
func TestSetPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		acl := []zk.ACL{{Perms: zk.PermAll &^ zk.PermAdmin, Scheme: "world", ID: "anyone"}}
		m, err := NewSemaphore(s, "/locks/a", 0, Options{ParentACL: acl})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.SetPermits(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.ACL(t.Context(), "/locks/a"); err != nil || !slices.Equal(got, acl) {
			t.Errorf("the ACL is %v, %v; want %v", got, err, acl)
		}
		const tooMany = "set permits /locks/a: 501 permits, want 1 to 500"
		if err := m.SetPermits(t.Context(), PermitsMax+1); err == nil || err.Error() != tooMany {
			t.Errorf("more permits than there may be: %v, want %s", err, tooMany)
		}
		c, err := NewCuratorSemaphore(s, "/locks/c", 2, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetPermits(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "/locks/c") {
			t.Errorf("Curator's: %v", err)
		}
	})
}

// A semaphore below a chroot that is missing says so, as other locks do: it asked again and again.
func TestASemaphoreBelowAMissingChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, err := client.Open(t.Context(), zktest.Servers+"/app", client.Options{Dial: srv.Dial})
		must(t, err)
		defer s.Close(context.Background())
		sem, err := NewSemaphore(s, "/s", 2, Options{})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		before := srv.Stats().Received
		_, err = sem.Acquire(ctx)
		for what, err := range map[string]error{"Acquire": err, "SetPermits": sem.SetPermits(ctx, 3)} {
			if !errors.Is(err, zk.ErrNoNode) || !strings.Contains(err.Error(), "the chroot /app is missing") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := srv.Stats().Received - before; n > 50 {
			t.Errorf("%d requests", n)
		}
	})
}
