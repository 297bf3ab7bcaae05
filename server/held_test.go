package server

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What waits for a client takes about the memory that is counted, also if the answers turn out to be much smaller than was
// made room for: reads of data that the client may not see.
func TestAnswersThatWaitTakeWhatIsCounted(t *testing.T) {
	secret := "/" + strings.Repeat("s", 100)
	t.Run("refused", func(t *testing.T) {
		answersThatWait(t, 20, wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetData, Path: secret}}, 30)})
	})
	t.Run("small", func(t *testing.T) { // the request is long, the answer is not
		answersThatWait(t, 20000, wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpGetData, Path: "/" + strings.Repeat("n", smallBody)}}})
	})
}

func answersThatWait(t *testing.T, n int, reads wire.MultiRequest) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p, g := r.connect("p"), r.connect("g")
		secret := "/" + strings.Repeat("s", 100)
		for path, perms := range map[string]zk.Perm{"/large": zk.PermAll, secret: zk.PermAdmin} {
			q := wire.CreateRequest{Path: path, Data: make([]byte, 500<<10), ACL: []zk.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}}
			if code := p.call(wire.OpCreate, &q, nil); code != zk.OK {
				t.Fatal(code)
			}
		}
		r.net.Link("g", "").Mute(memnet.ToClient)
		heap := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		go func() {
			for i := range int32(2) {
				g.nc.Write(frameOf(1+i, wire.OpGetData, &wire.WatchRequest{Path: "/large"}))
			}
		}()
		synctest.Wait()
		before, counted := heap(), int(r.answers.used.Load())
		go func() {
			for i := range int32(n) {
				g.nc.Write(frameOf(3+i, wire.OpMultiRead, &reads))
			}
		}()
		synctest.Wait()
		took, counts := heap()-before, int(r.answers.used.Load())-counted
		if counts == 0 {
			t.Fatal("nothing waits")
		}
		if took > 2*counts+1<<20 {
			t.Errorf("%d bytes are counted, and %d are held", counts, took)
		}
	})
}
