package lock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F01: the answer to an operator's write is lost, and no server can be reached until the context ends: the outcome is unknown.
func TestF01_ADoubtOfAnOperatorStays(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, s *client.Session, h *lock.Hold) error{
		"SetPermits": func(ctx context.Context, s *client.Session, h *lock.Hold) error {
			m, err := lock.NewSemaphore(s, "/locks/s", 0, lock.Options{})
			must(t, nil, err)
			return m.SetPermits(ctx, 7)
		},
		"Break": func(ctx context.Context, s *client.Session, h *lock.Hold) error {
			_, err := inspect.Break(ctx, s, inspect.Contender{Node: h.Node(), Token: h.Token()})
			return err
		},
		"Revoke": func(ctx context.Context, s *client.Session, h *lock.Hold) error {
			_, err := inspect.Revoke(ctx, s, inspect.Contender{Node: h.Node(), Token: h.Token()})
			return err
		},
	} {
		for _, kind := range []string{"mutex", "unfair"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.New(t, zktest.Options{})
					blocked := false
					link := srv.Link("operator")
					s, err := client.Open(t.Context(), zktest.Servers, client.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
						if blocked {
							return nil, errors.New("blocked")
						}
						return link.Dial(ctx, network, addr)
					}})
					must(t, nil, err)
					defer s.Close(context.Background())
					sem, err := lock.NewSemaphore(s, "/locks/s", 0, lock.Options{})
					must(t, nil, err)
					must(t, nil, sem.SetPermits(t.Context(), 2))
					h := takeOne(t, srv.Session(t, "holder"), kind)
					before := srv.Tree("/locks")

					link.LoseAnswer()
					blocked = true
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					err = write(ctx, s, h)
					if !errors.Is(err, context.DeadlineExceeded) || !client.MaybeApplied(err) {
						t.Errorf("%v; MaybeApplied says %v", err, client.MaybeApplied(err))
					}
					if fmt.Sprint(srv.Tree("/locks")) == fmt.Sprint(before) {
						t.Error("nothing was written: the test shows nothing")
					}
				})
			})
		}
	}
}

// F01: a holder that has left because of a request to give up, whose answer was lost, has not left by itself.
func TestF01_ARevocationWhoseAnswerIsLost(t *testing.T) {
	for _, kind := range []string{"mutex", "unfair"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				s := srv.Session(t, "operator")
				h := takeOne(t, srv.Session(t, "holder"), kind)
				go func() {
					<-h.Revoked()
					h.Release(context.WithoutCancel(t.Context()))
				}()
				srv.Link("operator").LoseAnswer()
				if asked, err := inspect.Revoke(t.Context(), s, inspect.Contender{Node: h.Node(), Token: h.Token()}); !asked || err != nil {
					t.Errorf("Revoke: %v, %v; want true and no error", asked, err)
				}
				<-h.Done()
			})
		})
	}
}

func takeOne(t *testing.T, s *client.Session, kind string) *lock.Hold {
	t.Helper()
	var m locker
	m, err := lock.NewMutex(s, "/locks/a", lock.Options{})
	if kind == "unfair" {
		m, err = lock.NewUnfair(s, "/locks/a", lock.Options{})
	}
	must(t, nil, err)
	h, err := m.Lock(t.Context())
	must(t, h, err)
	return h
}
