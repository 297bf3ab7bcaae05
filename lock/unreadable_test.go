package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F04: the answer to a create is longer than the client takes, so the attempt fails and does not know its claims. They are looked
// for and deleted, and another client gets the lock.
func TestF04_TheAnswerToACreateIsTooLong(t *testing.T) {
	type taken func(context.Context) (interface{ Release(context.Context) error }, error)
	for name, c := range map[string]struct {
		longest int // bytes of an answer; the listing with the claims of both clients is shorter
		lock    func(*client.Session) (taken, error)
	}{
		"permits": {24 << 10, func(s *client.Session) (taken, error) {
			m, err := lock.NewSemaphore(s, "/l/s", 200, lock.Options{})
			return func(ctx context.Context) (interface{ Release(context.Context) error }, error) {
				return m.AcquireN(ctx, 200)
			}, err
		}},
		"unfair": {1 << 10, func(s *client.Session) (taken, error) {
			m, err := lock.NewUnfair(s, "/l/"+strings.Repeat("u", 1000), lock.Options{})
			return func(ctx context.Context) (interface{ Release(context.Context) error }, error) { return m.Lock(ctx) }, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				s, err := srv.Link("s").Open(t.Context(), client.Options{ReplyBytesMax: c.longest})
				must(t, nil, err)
				defer s.Close(context.Background())
				ours, err := c.lock(s)
				must(t, nil, err)
				if _, err := ours(t.Context()); err == nil {
					t.Fatal("the answer was not too long")
				}
				theirs, err := c.lock(srv.Session(t, "other"))
				must(t, nil, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				h, err := theirs(ctx)
				must(t, nil, err)
				must(t, nil, h.Release(t.Context()))
			})
		})
	}
}
