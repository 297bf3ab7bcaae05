package lock

import (
	"context"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F31: a caller that re-enters in the very moment of the last release has a hold of a node that stays, or none.
func TestF31_ReenteredWhileReleased(t *testing.T) {
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	s, err := client.Open(t.Context(), zktest.Servers, client.Options{Dial: srv.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	m, err := NewMutex(s, "/locks/a", Options{Reentrant: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var again *Hold
		under := context.WithoutCancel(h.Context())
		wg.Go(func() { again, _ = m.lock.reenter(under, false) })
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if again == nil {
			continue
		}
		if err := again.Cause(); err != nil {
			t.Fatalf("round %d: a hold that was over when it was given: %v", i, err)
		}
		if err := again.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
