package lock

import (
	"context"
	"testing"
	"testing/synctest"

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
		a := newAttempt(m.e, 1, record{})
		p := s.Pipeline()
		a.watchRoom(p)
		srv.Link("s").Freeze()
		p.Send(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.seeRoom(ctx); err == nil {
			t.Fatal("an answer has come from a server that is cut off")
		}
		if a.room.watch == nil {
			t.Error("nobody is left to cancel the watch")
		}
		srv.Link("s").Heal()
	})
}
