package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F06: the claim to one lock of an All is deleted before it is listed, and another contender holds the next one. With
// Options.Requeue both are claimed again, and the claims that are given up do not count against Options.QueueMax.
func TestF06_AnAllQueuesAgainBehindNoClaimOfItsOwn(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			other := srv.Session(t, "other")
			proxy := faultproxy.New(srv.Link("s").Dial)
			defer proxy.Close()
			s, err := client.Open(t.Context(), zktest.Servers, clock.With(client.Options{Dial: proxy.Dial}, &clock.Clock{}))
			must(t, nil, err)
			defer s.Close(context.Background())
			mutex := func(s *client.Session, path string) *lock.Mutex {
				m, err := lock.NewMutex(s, path, lock.Options{Requeue: true, QueueMax: 1})
				must(t, nil, err)
				return m
			}
			all, err := lock.NewAll(mutex(s, "/l/a"), mutex(s, "/l/b"))
			must(t, nil, err)
			made, err := all.Lock(t.Context()) // the directories
			must(t, nil, err)
			must(t, nil, made.Release(t.Context()))
			theirs, err := mutex(other, "/l/b").Lock(t.Context())
			must(t, theirs, err)
			listings := faultproxy.Match{Ops: []wire.Op{wire.OpGetChildren, wire.OpGetChildren2}, Path: "/l/a"}
			deleting := proxy.Before(listings, func(faultproxy.Request) {
				names, _, _ := other.Children(context.Background(), "/l/a")
				for _, name := range names {
					other.Delete(context.Background(), "/l/a/"+name, -1)
				}
			})
			got := make(chan error, 1)
			go func() {
				h, err := all.Lock(t.Context())
				if err == nil {
					err = h.Release(t.Context())
				}
				got <- err
			}()
			time.Sleep(time.Second)
			deleting.Remove()
			time.Sleep(time.Second)
			must(t, nil, theirs.Release(t.Context()))
			must(t, nil, <-got)
		})
	}
}

// F06: one of the claims of AcquireN is deleted while it waits. With Options.Requeue it queues again, and the claims that it gives up
// do not count against Options.QueueMax.
func TestF06_PermitsQueueAgainBehindNoClaimOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		admin := srv.Session(t, "admin")
		semaphore := func(label string) *lock.Semaphore {
			sem, err := lock.NewSemaphore(srv.Session(t, label), "/sem", 2, lock.Options{Requeue: true, QueueMax: 1})
			must(t, nil, err)
			return sem
		}
		theirs, err := semaphore("theirs").Acquire(t.Context())
		must(t, theirs, err)
		got := make(chan error, 1)
		go func() {
			h, err := semaphore("ours").AcquireN(t.Context(), 2)
			if err == nil {
				err = h.Release(t.Context())
			}
			got <- err
		}()
		time.Sleep(time.Second)
		names, _, err := admin.Children(t.Context(), "/sem")
		must(t, nil, err)
		for _, name := range names {
			if path := "/sem/" + name; path != theirs.Node() {
				must(t, nil, admin.Delete(t.Context(), path, -1))
				break
			}
		}
		time.Sleep(time.Second)
		must(t, nil, theirs.Release(t.Context()))
		must(t, nil, <-got)
	})
}
