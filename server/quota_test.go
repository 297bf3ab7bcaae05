package server

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func (p *peer) put(path, data string) zk.Code {
	p.t.Helper()
	q := createReq(path, zk.Persistent)
	q.Data = []byte(data)
	return p.call(wire.OpCreate, q, nil)
}

func (p *peer) data(path string) string {
	p.t.Helper()
	var a wire.DataResponse
	if code := p.call(wire.OpGetData, &wire.WatchRequest{Path: path}, &a); code != zk.OK {
		p.t.Fatalf("data of %s: %v", path, code)
	}
	return string(a.Data)
}

// A quota binds, is spoken of once, and its usage is right again after a restart, though the log
// knows nothing of it.
func TestQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		r := start(t, func(o *Options) {
			o.EnforceQuota = true
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		p := r.connect("c")
		p.put("/a", "12345")
		p.put("/zookeeper/quota/a", "")
		p.put("/zookeeper/quota/a/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2")
		p.put("/zookeeper/quota/a/zookeeper_stats", "")
		if code := p.put("/a/b", "123"); code != zk.OK {
			t.Error(code)
		}
		for range 10 {
			if code := p.put("/a/c", "1"); code != zk.ErrQuotaExceeded {
				t.Errorf("beyond the limit: %v", code)
			}
		}
		if n := strings.Count(log.String(), "quota exceeded"); n != 1 {
			t.Errorf("%d lines about it, want 1:\n%s", n, log.String())
		}
		const usage = "/zookeeper/quota/a/zookeeper_stats"
		for range 2 {
			if got, want := p.data(usage), "count=2,bytes=8"; got != want {
				t.Errorf("usage %q, want %q", got, want)
			}
			r.reopen(r.fs.CrashClone(nil))
			p = r.connect("c")
		}
		if code := p.put("/a/c", "1"); code != zk.ErrQuotaExceeded {
			t.Errorf("after a restart: %v", code)
		}
	})
}

// A full disk ends the server with a line that says so; what it had acknowledged is there when
// there is room again.
func TestAFullDiskAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		r := start(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		p := r.connect("c")
		p.create("/before", zk.Persistent)
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpWrite {
				return syscall.ENOSPC
			}
			return nil
		})
		p.send(wire.OpCreate, createReq("/after", zk.Persistent))
		p.wantClosed()
		<-r.Done()
		if err := r.Err(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Err() = %v, want %v", err, syscall.ENOSPC)
		}
		if !strings.Contains(log.String(), "nothing is acknowledged any more") || !strings.Contains(log.String(), syscall.ENOSPC.Error()) {
			t.Errorf("logged %q", log.String())
		}
		r.Close()
		r.fs = r.fs.KillClone()
		r.open()
		if !r.connect("c").exists("/before") {
			t.Error("what was acknowledged is lost")
		}
	})
}

func TestServersThatDoNotSyncSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		r := start(t, func(o *Options) {
			o.NoSync = true
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		if !strings.Contains(log.String(), "forceSync=no") {
			t.Errorf("logged %q", log.String())
		}
		syncs := 0
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpDatasync {
				syncs++
			}
			return nil
		})
		r.connect("c").create("/n", zk.Persistent)
		if syncs != 0 {
			t.Errorf("%d syncs", syncs)
		}
	})
}
