package server

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Another program removes the log. The next write is not acknowledged, the server ends and says why, and what was
// acknowledged is there at the next start.
func TestALogThatIsRemovedEndsTheServer(t *testing.T) {
	opts := Options{DataDir: t.TempDir(), PreAllocBytes: 64 << 10}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	p := newPeer(t, nc)
	p.handshake(wire.ConnectRequest{Timeout: 10000})
	p.create("/acknowledged", zk.Persistent)
	logs, err := filepath.Glob(filepath.Join(opts.DataDir, "version-2", "log.*"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs: %v, %v", logs, err)
	}
	if err := os.Remove(logs[0]); err != nil {
		t.Fatal(err)
	}
	if !p.exists("/acknowledged") {
		t.Error("a read failed")
	}
	// The name is looked at every few milliseconds. What is acknowledged until then is saved, too.
	acknowledged := 0
	for end := time.Now().Add(10 * time.Second); ; acknowledged++ {
		if time.Now().After(end) {
			t.Errorf("%d writes were acknowledged after the log was removed", acknowledged)
			s.Close()
			break
		}
		p.send(wire.OpCreate, createReq("/later-", zk.PersistentSequential))
		_, err := wire.ReadFrame(p.in, nil, 1<<20)
		if err != nil {
			break
		}
	}
	if err := <-served; !errors.Is(err, vfs.ErrRemoved) || !strings.Contains(err.Error(), logs[0]) {
		t.Errorf("Serve: %v, want it to name %s", err, logs[0])
	}
	s.Close()
	again, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, ok := again.tree.Lookup("/acknowledged"); !ok {
		t.Error("what was acknowledged is lost")
	}
	if root, _ := again.tree.Lookup("/"); int(root.NumChildren) < 2+acknowledged {
		t.Errorf("the root has %d children, want %d at least", root.NumChildren, 2+acknowledged)
	}
}

// The disk is full in the middle of a snapshot. The server goes on, leaves no half a file, and writes the snapshot when
// there is room.
func TestTheDiskIsFullInTheMiddleOfASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		r := start(t, func(o *Options) {
			o.SnapCount = 20
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		p := r.connect("c")
		big := &wire.CreateRequest{Data: bytes.Repeat([]byte("x"), 500<<10), ACL: zk.OpenACL()}
		for _, big.Path = range []string{"/big-1", "/big-2"} {
			if code := p.call(wire.OpCreate, big, nil); code != zk.OK {
				t.Fatal(code)
			}
		}
		var full atomic.Bool
		full.Store(true)
		writes := 0 // of snapshots; the file system is locked
		r.fs.SetFault(func(op vfs.Op, path string, _ int64) error {
			if op == vfs.OpWrite && strings.Contains(path, "snapshot") && full.Load() {
				writes++
				if writes%2 == 0 { // the first one has room
					return syscall.ENOSPC
				}
			}
			return nil
		})
		for range 60 {
			p.create("/n-", zk.PersistentSequential)
		}
		synctest.Wait()
		if !strings.Contains(log.String(), "no snapshot could be written") || !strings.Contains(log.String(), syscall.ENOSPC.Error()) {
			t.Errorf("the log does not say that no snapshot could be written:\n%s", log.String())
		}
		files := func() string {
			names, err := r.fs.ReadDir("/data/version-2")
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(names, " ")
		}
		if got := files(); strings.Count(got, "snapshot") != 1 {
			t.Errorf("files %s, want the first snapshot and no half of another", got)
		}
		full.Store(false)
		for range 60 {
			p.create("/n-", zk.PersistentSequential)
		}
		time.Sleep(time.Minute) // snapshots take their time
		if got := files(); strings.Count(got, "snapshot") < 2 {
			t.Errorf("files %s, want another snapshot", got)
		}
		r.reopen(r.fs.CrashClone(nil))
		if n := len(r.connect("after").children("/")); n != 123 {
			t.Errorf("%d znodes after a crash, want 123", n)
		}
	})
}

// The file system becomes read-only, as after an error of the disk. Nothing is acknowledged; a start is refused and says
// why; when the file system can be written again, everything acknowledged is there.
func TestAFileSystemThatBecomesReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		p.create("/acknowledged", zk.Persistent)
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			switch op {
			case vfs.OpOpen, vfs.OpRead, vfs.OpReadDir, vfs.OpLock:
				return nil
			}
			return syscall.EROFS
		})
		if !p.exists("/acknowledged") {
			t.Error("a read failed")
		}
		p.send(wire.OpCreate, createReq("/not-acknowledged", zk.Persistent))
		p.wantClosed()
		<-r.Done()
		if err := r.Err(); !errors.Is(err, syscall.EROFS) {
			t.Errorf("Err() = %v, want %v", err, syscall.EROFS)
		}
		r.Close()
		if s, err := Open(r.opts); !errors.Is(err, syscall.EROFS) {
			t.Errorf("Open: %v, want %v", err, syscall.EROFS)
			if err == nil {
				s.Close()
			}
		}
		r.fs.SetFault(nil)
		r.open()
		if got := r.connect("after").children("/"); strings.Join(got, " ") != "acknowledged zookeeper" {
			t.Errorf("znodes %q", got)
		}
	})
}

// The clock of the machine is set. Sessions neither end early nor live on; times in stats follow the clock, and nothing
// else does, except what has a time to live.
func TestTheClockIsSet(t *testing.T) {
	for name, step := range map[string]time.Duration{"forwards": 1000 * time.Hour, "backwards": -1000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var offset atomic.Int64
				r := start(t, func(o *Options) {
					o.wall = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
					o.ReapInterval = time.Second
				})
				silent, holder := r.connect("silent"), r.connect("holder")
				silent.create("/silent", zk.Ephemeral)
				holder.create("/held", zk.Ephemeral)
				if code := holder.call(wire.OpCreateContainer, createReq("/container", zk.Container), nil); code != zk.OK {
					t.Fatal(code)
				}
				last := r.Zxid()
				offset.Store(int64(step))
				for range 3 { // within the timeout of 10 s
					time.Sleep(3 * time.Second)
					holder.ping()
				}
				for _, path := range []string{"/silent", "/held", "/container"} {
					if !holder.exists(path) {
						t.Errorf("%s is gone before a timeout has passed", path)
					}
				}
				for range 2 {
					time.Sleep(3 * time.Second)
					holder.ping()
				}
				if holder.exists("/silent") {
					t.Error("a silent session has not expired")
				}
				holder.create("/later", zk.Persistent)
				var found wire.StatResponse
				holder.call(wire.OpExists, &wire.WatchRequest{Path: "/later"}, &found)
				if drift := time.UnixMilli(found.Stat.Ctime).Sub(time.Now().Add(step)); drift < -time.Minute || drift > time.Minute {
					t.Errorf("ctime is off by %v", drift)
				}
				if found.Stat.Czxid <= last {
					t.Errorf("zxid %#x after %#x", found.Stat.Czxid, last)
				}
				// A restart under the new clock neither loses sessions nor gives their ids to others.
				r.reopen(r.fs)
				again := r.resume(holder)
				if again.session != holder.session || r.connect("new").session == holder.session {
					t.Error("the session was not given back, or its id given to another client")
				}
				if !again.exists("/held") {
					t.Error("the ephemeral is gone")
				}
			})
		})
	}
}
