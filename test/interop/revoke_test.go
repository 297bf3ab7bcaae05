package interop

import (
	"context"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
)

// Curator's holder hears us when we ask it to give up, and is shown as the holder that it is.
func TestCuratorHearsARevocation(t *testing.T) {
	t.Parallel()
	onBothServers(t, func(t *testing.T, addr string) {
		l := newTestLock(t, "/revocable", addr, addr)
		p := l.start(peer.Curator)
		token := p.Take(l.path, peer.Revocable)
		s := open(t, addr, client.Options{})
		snap, err := inspect.Look(t.Context(), s, l.path)
		if err != nil || snap.Kind != inspect.KindMutex || len(snap.Contenders) != 1 || !snap.Contenders[0].Held ||
			snap.Contenders[0].Token != token || snap.Contenders[0].Revoked {
			t.Fatalf("Look = %+v, %v, want Curator's holder with token %#x", snap, err, token)
		}
		p.Send("revoked 100")
		p.Expect("undisturbed")
		if asked, err := inspect.Revoke(t.Context(), s, snap.Contenders[0]); !asked || err != nil {
			t.Fatalf("Revoke = %v, %v", asked, err)
		}
		p.Send("revoked 20000")
		p.Expect("revoked")
		if snap, err := inspect.Look(t.Context(), s, l.path); err != nil || len(snap.Holders()) != 1 || !snap.Holders()[0].Revoked {
			t.Errorf("afterwards Look = %+v, %v, want the same holder, revoked", snap, err)
		}
		p.Unlock()
		l.empty()
	})
}

// Our holders of every kind hear Curator's Revoker, go on holding, and are known again afterwards.
func TestCuratorRevokesOurs(t *testing.T) {
	t.Parallel()
	type acquire = func(context.Context) (*lock.Hold, error)
	opt := lock.Options{Label: "ours"}
	kinds := []struct {
		name string
		lock func(s *client.Session, path string) (acquire, error)
	}{
		{"mutex", func(s *client.Session, path string) (acquire, error) {
			m, err := lock.NewMutex(s, path, opt)
			return m.Lock, err
		}},
		{"writer", func(s *client.Session, path string) (acquire, error) {
			m, err := lock.NewRWMutex(s, path, opt)
			return m.Lock, err
		}},
		{"reader", func(s *client.Session, path string) (acquire, error) {
			m, err := lock.NewRWMutex(s, path, opt)
			return m.RLock, err
		}},
		{"permit", func(s *client.Session, path string) (acquire, error) {
			m, err := lock.NewCuratorSemaphore(s, path, 2, opt)
			return m.Acquire, err
		}},
		{"unfair", func(s *client.Session, path string) (acquire, error) {
			u, err := lock.NewUnfair(s, path, opt)
			return u.Lock, err
		}},
	}
	onBothServers(t, func(t *testing.T, addr string) {
		s := open(t, addr, client.Options{})
		for _, c := range kinds {
			t.Run(c.name, func(t *testing.T) {
				l := newTestLock(t, "/revoked-"+c.name, addr, addr)
				p := l.start(peer.Curator)
				take, err := c.lock(s, l.path)
				if err != nil {
					t.Fatal(err)
				}
				h, err := take(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				p.Send("revoke %s", h.Node())
				p.Expect("asked")
				select {
				case <-h.Revoked():
				case <-time.After(patience):
					t.Fatal("the holder does not hear that it is asked to give up")
				}
				if err := h.Cause(); err != nil {
					t.Errorf("the hold is over: %v", err)
				}
				var snap inspect.Snapshot
				for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					snap, err = inspect.Look(t.Context(), s, l.path)
					if err != nil || len(snap.Holders()) == 1 && snap.Holders()[0].Owner.Label == "ours" {
						break
					}
				}
				if err != nil || len(snap.Holders()) != 1 || !snap.Holders()[0].Revoked || snap.Holders()[0].Owner.Label != "ours" {
					t.Errorf("Look = %+v, %v, want our holder, revoked", snap, err)
				}
				if err := h.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
