package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestASlowReaderStallsNoOtherClientAndIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64 << 10
		r := start(t, func(o *Options) { o.OutputBytesMax = limit })
		slow, w := r.connect("slow"), r.connect("w")
		w.create("/n", zk.Persistent)
		slow.call(wire.OpAddWatch, &wire.AddWatchRequest{Path: "/n"}, nil)
		r.net.Link("slow", "").Mute(memnet.ToClient)
		begin := time.Now()
		for range 6000 { // events of 38 bytes
			if code := w.call(wire.OpSetData, &wire.SetDataRequest{Path: "/n", Version: -1}, nil); code != zk.OK {
				t.Fatal(code)
			}
		}
		if d := time.Since(begin); d > 0 {
			t.Errorf("a slow reader cost the others %v", d)
		}
		synctest.Wait()
		if n := r.Stats().Connections; n != 1 {
			t.Errorf("%d connections, want only the writer's: the slow one holds more than %d bytes", n, limit)
		}
	})
}

func TestAClientThatReadsNoAnswersIsNotReadFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		slow, w := r.connect("slow"), r.connect("w")
		big := make([]byte, 1<<20-200)
		w.call(wire.OpCreate, &wire.CreateRequest{Path: "/big", Data: big, ACL: zk.OpenACL()}, nil)
		get := frameOf(1, wire.OpGetData, &wire.WatchRequest{Path: "/big"})
		stuck := false
		for range 10000 { // 10 GB of answers
			slow.nc.SetWriteDeadline(time.Now().Add(time.Millisecond))
			if _, err := slow.nc.Write(get); err != nil {
				stuck = true
				break
			}
		}
		if !stuck {
			t.Error("the server goes on reading requests whose answers are not taken")
		}
		for range 10 {
			w.ping()
			time.Sleep(2 * time.Second)
		}
		if n := r.Stats().Connections; n != 1 {
			t.Errorf("%d connections when the silent client's session has expired, want the other one alone", n)
		}
	})
}

// A client that takes its answers may ask for any number at once, also behind a write.
func TestAClientThatTakesItsAnswersIsNotCutOff(t *testing.T) {
	get, multiRead := &wire.WatchRequest{Path: "/big"}, &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpGetData, Path: "/big"}}}
	for _, c := range []struct {
		reads, behind, bytes int
		op                   wire.Op
		what                 wire.Record
	}{
		{20, 20, 1<<20 - 200, wire.OpGetData, get}, {20, 20, 1<<20 - 200, wire.OpMultiRead, multiRead},
		{5000, 5000, 10 << 10, wire.OpGetData, get}, {5000, 300, 10 << 10, wire.OpGetData, get},
	} {
		t.Run(fmt.Sprintf("%d %v of %d bytes, %d behind a write", c.reads, c.op, c.bytes, c.behind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				busy, p := r.connect("busy"), r.connect("c")
				p.call(wire.OpCreate, &wire.CreateRequest{Path: "/big", Data: make([]byte, c.bytes), ACL: zk.OpenACL()}, nil)
				release := r.stall()
				defer release()
				busy.send(wire.OpCreate, createReq("/n", zk.Persistent)) // and its reader commits, or the loop
				synctest.Wait()
				p.raw(frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Version: -1}))
				ask := func(from, to int) {
					var b []byte
					for i := from; i < to; i++ {
						b = append(b, frameOf(int32(2+i), c.op, c.what)...)
					}
					go p.nc.Write(b)
					synctest.Wait()
				}
				ask(0, c.behind)
				release()
				ask(c.behind, c.reads)
				for i := range c.reads + 1 {
					if a := p.receive(); a.Xid != int32(1+i) {
						t.Fatalf("answer to %d, want the one to %d", a.Xid, 1+i)
					}
					time.Sleep(time.Millisecond)
				}
			})
		})
	}
}

// So it is with all requests whose answers can be larger than they are, and with answers that are larger than all
// that may wait.
func TestLargeAnswersDoNotCutOff(t *testing.T) {
	const limit = 1 << 20
	long := strings.Repeat("x", 300)
	acl, names := zk.OpenACL(), make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprint("/", i, long)
		acl = append(acl, zk.ACL{Perms: zk.PermRead, Scheme: "digest", ID: fmt.Sprint(i, long, ":hash")})
	}
	small := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpSetData, Path: "/s", Version: -1}}, 4000)}
	missed := wire.SetWatchesRequest{Data: slices.Repeat([]string{"/s"}, 10000), Exist: []string{}, Child: []string{}}
	for _, c := range []struct {
		op   wire.Op
		what wire.Record
		n    int
	}{
		{wire.OpGetChildren, &wire.WatchRequest{Path: "/"}, 30}, {wire.OpGetEphemerals, &wire.PrefixRequest{}, 30},
		{wire.OpGetACL, &wire.PathRecord{Path: "/a"}, 30}, {wire.OpMulti, &small, 6}, {wire.OpSetWatches, &missed, 6},
		{wire.OpGetChildren, &wire.WatchRequest{Path: "/large"}, 4},
	} {
		for _, behind := range []wire.Op{wire.OpSetData, wire.OpExists} {
			t.Run(fmt.Sprintf("%d %v behind %v", c.n, c.op, behind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := start(t, func(o *Options) { o.OutputBytesMax = limit })
					busy, p := r.connect("busy"), r.connect("c")
					for _, path := range []string{"/s", "/large"} {
						p.create(path, zk.Persistent)
					}
					p.call(wire.OpCreate, &wire.CreateRequest{Path: "/a", ACL: acl}, nil)
					for _, name := range names {
						p.create(name, zk.Ephemeral)
					}
					for i := range limit / 1000 {
						p.create(fmt.Sprint("/large/", i, strings.Repeat("x", 1000)), zk.Persistent)
					}
					release := r.stall()
					defer release()
					busy.send(wire.OpCreate, createReq("/n", zk.Persistent)) // which commits, or the loop
					synctest.Wait()
					b := frameOf(1, behind, &wire.SetDataRequest{Path: "/", Version: -1})
					for i := range c.n {
						b = append(b, frameOf(int32(2+i), c.op, c.what)...)
					}
					go p.nc.Write(b)
					synctest.Wait()
					release()
					for i := range c.n + 1 {
						if a := p.receiveAnswer(); a.Xid != int32(1+i) || a.Err != zk.OK {
							t.Fatalf("answer to %d, %v, want the one to %d", a.Xid, a.Err, 1+i)
						}
					}
				})
			})
		}
	}
}

func TestAMultiReadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.OutputBytesMax = 4 << 20 })
		p := r.connect("c")
		p.call(wire.OpCreate, &wire.CreateRequest{Path: "/big", Data: make([]byte, 1<<20-200), ACL: zk.OpenACL()}, nil)
		for n, want := range map[int]zk.Code{4: zk.OK, 5: zk.ErrMarshalling} {
			q := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetData, Path: "/big"}}, n)}
			if code := p.call(wire.OpMultiRead, &q, nil); code != want {
				t.Errorf("a multiRead of %d MiB with a limit of 4 MiB: %v, want %v", n, code, want)
			}
		}
	})
}

func TestOutstandingRequestsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.OutstandingMax = 10 })
		busy, p := r.connect("busy"), r.connect("c")
		release := r.stall()
		defer release()
		busy.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		const n = 5000
		go func() {
			for range n {
				p.nc.Write(frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Data: make([]byte, 100), Version: -1}))
			}
		}()
		synctest.Wait()
		if got := r.Stats().Outstanding; got != 1+10 {
			t.Errorf("%d requests are outstanding, want 10 beside the one on its way to the disk", got)
		}
		release()
		busy.receive()
		for range n {
			p.receive()
		}
	})
}
