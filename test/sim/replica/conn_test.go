package replica

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/watch"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// Seed 60000071311: a read that waited behind a write was answered after the client had hung up, and its watch stayed.
func TestNoWatchIsSetAfterTheClientHasHungUp(t *testing.T) {
	for _, gone := range []bool{false, true} {
		r := &Replica{tree: tree.New(false), watches: watch.NewTable(1)}
		body := wire.AppendBool(wire.AppendString(nil, "/a"), true)
		k := &conn{r: r, id: 1, down: newOutbox(nil), up: newOutbox(nil), gone: gone}
		k.pending = []*request{{RequestHeader: wire.RequestHeader{Xid: 1, Op: wire.OpExists}, body: body}}
		k.pumpLocked()
		want := 1
		if gone {
			want = 0
		}
		if n := r.watches.Count(); n != want {
			t.Errorf("gone %v: %d watches, want %d", gone, n, want)
		}
	}
}
