package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// answers is what a fake does that answers the requests that are meant with a code.
func answers(code zk.Code, meant func(heard) bool) func(p *peer) func(h heard) bool {
	return func(p *peer) func(h heard) bool {
		return func(h heard) bool {
			if meant(h) {
				p.answer(h.Xid, code, nil)
			}
			return meant(h)
		}
	}
}

// F01: what may be said about a request that did not end well, in every way in which it can end.
func TestF01_MaybeApplied(t *testing.T) {
	ops := []struct {
		name  string
		write bool
		call  func(ctx context.Context, s *client.Session) error
	}{
		{"create", true, func(ctx context.Context, s *client.Session) error {
			_, err := s.Create(ctx, "/n", nil, zk.Persistent, nil)
			return err
		}},
		{"delete", true, func(ctx context.Context, s *client.Session) error { return s.Delete(ctx, "/n", -1) }},
		{"set", true, func(ctx context.Context, s *client.Session) error {
			_, err := s.Set(ctx, "/n", nil, -1)
			return err
		}},
		{"multi", true, func(ctx context.Context, s *client.Session) error {
			_, err := s.Multi(ctx, client.OpCheck("/n", -1))
			return err
		}},
		{"setACL", true, func(ctx context.Context, s *client.Session) error {
			_, err := s.SetACL(ctx, "/n", zk.OpenACL(), -1)
			return err
		}},
		{"get", false, func(ctx context.Context, s *client.Session) error {
			_, _, err := s.Get(ctx, "/n")
			return err
		}},
		{"sync", false, func(ctx context.Context, s *client.Session) error { return s.Sync(ctx, "/n") }},
	}
	user := func(h heard) bool { return h.Op != wire.OpPing && h.Op != wire.OpCloseSession }
	ways := []struct {
		name  string
		maybe bool // if the request is a write
		cause error
		reads error                            // the cause if the request is a read, which is repeated
		serve func(p *peer) func(h heard) bool // what becomes of the request; may hang up
		spoil func(n *memnet.Network, s *client.Session)
	}{
		{name: "withdrawn before it was sent", cause: context.DeadlineExceeded,
			spoil: func(n *memnet.Network, s *client.Session) {
				n.Link("", "").Refuse()
				n.Link("", "").Cut()
				<-time.After(time.Second)
			}},
		{name: "sent, no answer in time", maybe: true, cause: context.DeadlineExceeded,
			serve: func(p *peer) func(h heard) bool { return user }},
		{name: "sent, connection lost", maybe: true, cause: zk.ErrConnectionLoss, reads: context.DeadlineExceeded,
			serve: func(p *peer) func(h heard) bool {
				return func(h heard) bool {
					if user(h) {
						p.nc.Close()
						p.fake.net.Link("", "").Refuse()
						return true
					}
					return false
				}
			}},
		{name: "answered with an error", cause: zk.ErrNoAuth, serve: answers(zk.ErrNoAuth, user)},
		{name: "the server has lost track of it", maybe: true, cause: zk.ErrConnectionLoss, reads: context.DeadlineExceeded,
			serve: answers(zk.ErrConnectionLoss, user)},
		{name: "the server has not decided in time", maybe: true, cause: zk.ErrConnectionLoss, reads: context.DeadlineExceeded,
			serve: answers(-7, user)},
		{name: "sent, session closed by us", maybe: true, cause: zk.ErrClosed,
			serve: func(p *peer) func(h heard) bool { return func(heard) bool { return true } },
			spoil: func(n *memnet.Network, s *client.Session) {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				time.AfterFunc(time.Second, func() { defer cancel(); s.Close(ctx) })
			}},
		{name: "after the session's end", cause: zk.ErrClosed,
			spoil: func(n *memnet.Network, s *client.Session) { s.Close(context.Background()) }},
	}
	for _, way := range ways {
		for _, op := range ops {
			t.Run(way.name+"/"+op.name, func(t *testing.T) {
				bubble(t, func(t *testing.T, n *memnet.Network) {
					serveFake(t, n, fakeAddr, func(p *peer) {
						if !p.open() {
							return
						}
						if way.serve == nil {
							p.serve(nil)
						} else {
							p.serve(way.serve(p))
						}
					})
					s := open(t, n, fakeAddr, client.Options{})
					if way.spoil != nil {
						way.spoil(n, s)
					}
					err := op.call(short(t, 3*time.Second), s)
					cause := way.cause
					if !op.write && way.reads != nil {
						cause = way.reads
					}
					wantErr(t, op.name, err, cause)
					var where *client.OpError
					if !errors.As(err, &where) || where.Op != op.name || where.Path != "/n" {
						t.Errorf("error %v (%+v) does not name %s /n", err, where, op.name)
					}
					if want := way.maybe && op.write; client.MaybeApplied(err) != want {
						t.Errorf("MaybeApplied(%v) = %v, want %v", err, !want, want)
					}
				})
			})
		}
	}
}

func TestMaybeAppliedLooksIntoErrors(t *testing.T) {
	sure, unsure := &client.OpError{Op: "set", Path: "/a", Err: zk.ErrNoNode}, &client.OpError{Op: "set", Path: "/a", Err: zk.ErrConnectionLoss, Maybe: true}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("other"), false},
		{sure, false},
		{unsure, true},
		{fmt.Errorf("while deploying: %w", unsure), true},
		{errors.Join(sure, errors.New("other")), false},
		{errors.Join(sure, fmt.Errorf("x: %w", unsure)), true},
		{&client.OpError{Op: "lock", Err: unsure}, true},
	} {
		if got := client.MaybeApplied(tt.err); got != tt.want {
			t.Errorf("MaybeApplied(%v) = %v, want %v", tt.err, got, tt.want)
		}
	}
	if got, want := unsure.Error(), "set /a: connection lost (outcome unknown)"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}
