package lock

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F26: a lock that is got while Close begins is an error, and not nothing.
func TestF26_StandaloneClosedWhileLocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, err := Dial(t.Context(), zktest.Servers, "/locks/alone", DialOptions{Session: client.Options{Dial: srv.Dial}})
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.mu.closed = true // as far as Close has come
		s.mu.Unlock()
		if h, err := s.Lock(t.Context()); h != nil || !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Lock = %v, %v, want zk.ErrClosed", h, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
