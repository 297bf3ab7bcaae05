package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestF47_EmptyContainersAreReaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) {
			o.ReapInterval = 5 * time.Minute
			o.ExtendedTypes = true
			o.MaxSessionTimeout = time.Hour
		})
		p := r.connect("c")
		p.handshakeTimeout(r, time.Hour)
		const used = 3*reapBatch + 7
		for i := range used {
			dir := fmt.Sprintf("/c%d", i)
			p.call(wire.OpCreateContainer, createReq(dir, zk.Container), nil)
			p.create(dir+"/x", zk.Persistent)
			p.call(wire.OpDelete, &wire.VersionRequest{Path: dir + "/x", Version: -1}, nil)
		}
		p.call(wire.OpCreateContainer, createReq("/unused", zk.Container), nil)
		p.call(wire.OpCreateContainer, createReq("/full", zk.Container), nil)
		p.create("/full/x", zk.Persistent)
		p.call(wire.OpCreateTTL, &wire.CreateTTLRequest{CreateRequest: *createReq("/ttl", zk.PersistentTTL), TTL: 1000}, nil)
		time.Sleep(5*time.Minute + time.Second)
		got := p.children("/")
		slices.Sort(got)
		if want := []string{"full", "unused", "zookeeper"}; !slices.Equal(got, want) {
			t.Errorf("%d children are left, %v; want %v", len(got), got[:min(len(got), 10)], want)
		}
	})
}

func TestSnapshotsAreWrittenAndOldOnesDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.SnapCount = 50 })
		p := r.connect("c")
		for i := range 1000 {
			p.create(fmt.Sprintf("/n%d", i), zk.Persistent)
		}
		synctest.Wait()
		names, err := r.fs.ReadDir(filepath.Join(r.opts.DataDir, "version-2"))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(names); n < 4 || n > 12 {
			t.Errorf("%d files after 1000 transactions, a snapshot every 50 and three of them kept: %v", n, names)
		}
		r.reopen(r.fs.CrashClone(nil))
		if n := len(r.connect("c").children("/")); n != 1001 {
			t.Errorf("%d children after recovery, want 1001", n)
		}
	})
}

// A snapshot is due when the log has grown enough, however few transactions that took.
func TestSnapshotsByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.SnapBytes = 100 << 10 })
		p := r.connect("c")
		p.create("/n", zk.Persistent)
		snapshots := func() (n int) {
			synctest.Wait()
			names, err := r.fs.ReadDir(filepath.Join(r.opts.DataDir, "version-2"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if strings.HasPrefix(name, "snapshot.") {
					n++
				}
			}
			return n
		}
		set := func(times int) {
			for range times {
				p.call(wire.OpSetData, &wire.SetDataRequest{Path: "/n", Data: make([]byte, 10<<10), Version: -1}, nil)
			}
		}
		set(4)
		if snapshots() != 1 {
			t.Errorf("%d snapshots after 40 KiB, want none but the first", snapshots())
		}
		set(6)
		if snapshots() != 2 {
			t.Errorf("%d snapshots after 100 KiB, want 2", snapshots())
		}
	})
}

func TestShutdownAnswersWhatItHasReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p, idle := r.connect("c"), r.connect("idle")
		release := r.stall()
		p.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		done := make(chan error)
		go func() { done <- r.Shutdown(t.Context()) }()
		synctest.Wait()
		if _, err := r.net.Dial(t.Context(), "zk"); err == nil {
			t.Error("still listening")
		}
		idle.wantClosed()
		release()
		if code := p.answerTo(p.xid, nil); code != zk.OK {
			t.Error(code)
		}
		p.wantClosed()
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if !errors.Is(r.Err(), ErrClosed) {
			t.Errorf("Err() = %v, want %v", r.Err(), ErrClosed)
		}
	})
}

// lateConn is a connection whose first deadline is set only after Shutdown has set its own.
type lateConn struct {
	net.Conn
	shut chan struct{}
	once sync.Once
}

func (c *lateConn) SetDeadline(t time.Time) error {
	<-c.shut
	return c.Conn.SetDeadline(t)
}

func (c *lateConn) SetReadDeadline(t time.Time) error {
	defer c.once.Do(func() { close(c.shut) })
	return c.Conn.SetReadDeadline(t)
}

type lateListener struct{ net.Listener }

func (l lateListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: nc, shut: make(chan struct{})}, nil
}

// A connection that is accepted a moment before Shutdown, and says nothing, is not waited for: the deadline of its handshake
// took the place of the one that Shutdown had set.
func TestShutdownDoesNotWaitForAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		l, err := r.net.Listen("late")
		if err != nil {
			t.Fatal(err)
		}
		go r.Serve(lateListener{l})
		nc, err := r.net.Dial(t.Context(), "late")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		synctest.Wait()
		began := time.Now()
		if err := r.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took > lingerTimeout {
			t.Errorf("Shutdown took %v", took)
		}
	})
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		release := r.stall()
		p.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		time.AfterFunc(time.Minute, release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || r.now() > time.Second+lateMax {
			t.Errorf("Shutdown: %v after %v", err, r.now())
		}
		p.wantClosed()
		<-r.Done()
	})
}

func TestServeEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		l, _ := r.net.Listen("second")
		ended := make(chan error)
		go func() { ended <- r.Serve(l) }()
		synctest.Wait()
		r.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		l, _ = r.net.Listen("third")
		if err := r.Serve(l); !errors.Is(err, ErrClosed) {
			t.Errorf("Serve of a closed server: %v", err)
		}
		if _, err := r.net.Dial(t.Context(), "third"); err == nil {
			t.Error("the listener is open after Serve")
		}
	})
}

func TestServeReportsABrokenListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		l, _ := r.net.Listen("second")
		ended := make(chan error)
		go func() { ended <- r.Serve(l) }()
		synctest.Wait()
		l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) || errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v, want what Accept said", err)
		}
		r.connect("c").ping()
	})
}

// badLock is a directory's lock that cannot be let go.
type badLock struct{ *vfs.Mem }

var errBadLock = errors.New("input/output error")

func (b badLock) LockDir(dir string) (io.Closer, error) { return b, nil }

func (b badLock) Close() error { return errBadLock }

// Err gives the reason while the server ends; afterwards it says, if that is so, that the files could not be
// closed.
func TestFilesThatCannotBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{DataDir: "/data", fs: badLock{vfs.NewMem()}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := memnet.New().Listen("zk")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() { served <- s.Serve(l) }()
		synctest.Wait()
		if err := s.Close(); !errors.Is(err, errBadLock) {
			t.Errorf("Close: %v, want %v", err, errBadLock)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v, want %v", err, ErrClosed)
		}
		if err := s.Err(); !errors.Is(err, errBadLock) {
			t.Errorf("Err: %v, want %v", err, errBadLock)
		}
	})
}

func TestWaitIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		begin := time.Now()
		go func() {
			time.Sleep(4 * time.Second)
			p.nc.Close()
			time.Sleep(6 * time.Second)
			p := r.connect("c")
			time.Sleep(2 * time.Second)
			p.nc.Close()
		}()
		if err := r.WaitIdle(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d != 22*time.Second {
			t.Errorf("idle after %v, want 22s: 10 s after the last connection", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.WaitIdle(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitIdle: %v", err)
		}
		time.AfterFunc(time.Second, func() { r.Close() })
		if err := r.WaitIdle(t.Context(), time.Hour); !errors.Is(err, ErrClosed) {
			t.Errorf("WaitIdle: %v", err)
		}
	})
}

func TestOpenRefusesNonsense(t *testing.T) {
	for _, tt := range []struct {
		opt  Options
		want string
	}{
		{Options{}, "director"},
		{Options{DataDir: "d", TickTime: time.Microsecond}, "the tick must be a millisecond or more"},
		{Options{DataDir: "d", TickTime: 1000 * time.Hour}, "clients cannot be told of more"},
		{Options{DataDir: "d", MinSessionTimeout: time.Minute, MaxSessionTimeout: time.Second}, "the timeouts in order"},
		{Options{DataDir: t.TempDir(), ReapInterval: -1}, "it must not be negative"},
		{Options{DataDir: t.TempDir(), FrameBytesMax: 1}, "FrameBytesMax 1"},
		{Options{DataDir: t.TempDir(), HandshakeTimeout: -1}, "no client could connect"},
		{Options{DataDir: t.TempDir(), SuperDigest: "super:secret"}, "the base64 of a SHA-1"},
		{Options{DataDir: t.TempDir(), SuperDigest: "admin"}, "the base64 of a SHA-1"},
	} {
		s, err := Open(tt.opt)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Open(%+v): %v, want it to say %q", tt.opt, err, tt.want)
		}
	}
}

// A transaction can be larger than the request it comes from: each entry "auth" becomes one for
// every identity. What the log could not hold is refused, and the server goes on.
func TestTransactionsBeyondTheLogsLimitAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		for i := range identitiesMax - 1 {
			user := fmt.Append(nil, i, strings.Repeat("u", 118), ":")
			p.raw(frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: user}))
			if a := p.receive(); a.Err != zk.OK {
				t.Fatal(i, a.Err)
			}
		}
		var q wire.MultiRequest
		for i := range muchWork * 4 / 5 {
			q.Ops = append(q.Ops, wire.MultiOp{Op: wire.OpCreate, Path: fmt.Sprint("/big", i), ACL: zk.CreatorACL()})
		}
		burst := frameOf(1, wire.OpCreate, createReq("/before", zk.Persistent))
		burst = append(burst, frameOf(2, wire.OpMulti, &q)...)
		burst = append(burst, frameOf(3, wire.OpCreate, createReq("/behind", zk.Persistent))...)
		p.raw(burst)
		var zxids []int64
		for i, want := range []zk.Code{zk.OK, zk.ErrMarshalling, zk.OK} {
			a := p.receive()
			zxids = append(zxids, a.Zxid)
			if a.Err != want {
				t.Errorf("answer %d: %v, want %v", i, a.Err, want)
			}
		}
		if zxids[1] != zxids[0]+1 || zxids[2] != zxids[1]+1 {
			t.Errorf("zxids %v have gaps", zxids)
		}
		r.reopen(r.fs)
		c := r.connect("c")
		if !c.exists("/before") || !c.exists("/behind") || c.exists("/big0") {
			t.Error("after a restart the tree is another")
		}
	})
}

// A server that is restarted again and again shows the same tree, whatever happened between.
func TestRestartsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := start(t, func(o *Options) { o.SnapCount = 30 })
		for round := range 10 {
			p := r.connect("c")
			for i := range 20 {
				path := fmt.Sprintf("/n%d", rnd.IntN(20))
				switch rnd.IntN(3) {
				case 0:
					p.call(wire.OpCreate, createReq(path, zk.Mode(rnd.IntN(4))), nil)
				case 1:
					p.call(wire.OpDelete, &wire.VersionRequest{Path: path, Version: -1}, nil)
				default:
					p.call(wire.OpSetData, &wire.SetDataRequest{Path: path, Data: fmt.Append(nil, i), Version: -1}, nil)
				}
			}
			if rnd.IntN(2) == 0 {
				p.call(wire.OpCloseSession, nil, nil)
			}
			synctest.Wait()
			before, _ := r.tree.Digest()
			sessions := r.Stats().Sessions
			r.reopen(r.fs.CrashClone(nil))
			after, _ := r.tree.Digest()
			if before != after || r.Stats().Sessions != sessions {
				t.Fatalf("seed %d round %d: digest %x with %d sessions became %x with %d", seed, round, before.Tree, sessions, after.Tree, r.Stats().Sessions)
			}
		}
	})
}

// The user of a SuperDigest may have any name, as in Apache ZooKeeper.
func TestSuperMayHaveAnyName(t *testing.T) {
	s, err := Open(Options{DataDir: t.TempDir(), SuperDigest: zk.DigestACL(zk.PermAll, "admin", "secret")[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
