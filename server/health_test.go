package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func (r *rig) wantHealth(part string) {
	r.t.Helper()
	synctest.Wait()
	err := r.Health()
	if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
		r.t.Errorf("health is %v, want %q", err, part)
	}
	healthy := 0.0
	if part == "" {
		healthy = 1
	}
	if got := r.metric("lockkeeper_healthy").Value; got != healthy {
		r.t.Errorf("lockkeeper_healthy is %v, want %v", got, healthy)
	}
}

func (r *rig) metric(name string) Metric {
	r.t.Helper()
	for _, m := range r.Metrics() {
		if m.Name == name {
			return m
		}
	}
	r.t.Fatalf("no metric %s", name)
	return Metric{}
}

func TestHealthWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.wantHealth("")
		c := r.connect("c")
		release := r.stall()
		c.send(wire.OpCreate, createReq("/n", zk.Persistent))
		time.Sleep(stuckAfter - time.Millisecond)
		r.wantHealth("")
		time.Sleep(2 * time.Millisecond)
		r.wantHealth("a batch of writes to the log in /data has been going on for 10s")
		release()
		r.wantHealth("")
	})
}

func TestHealthAfterTheDiskFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		c := r.connect("c")
		broken := errors.New("no such luck")
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpDatasync {
				return broken
			}
			return nil
		})
		c.send(wire.OpCreate, createReq("/n", zk.Persistent))
		<-r.Done()
		r.wantHealth(broken.Error())
	})
}

func TestHealthAtTheEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{DataDir: "/d", fs: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Health(); !errors.Is(err, errNoListener) {
			t.Errorf("before Serve: %v", err)
		}
		s.Close()

		r := start(t)
		c := r.connect("c")
		release := r.stall()
		c.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r.Shutdown(context.Background())
		}()
		r.wantHealth("shutting down")
		release()
		<-gone
		r.wantHealth("closed")
	})
}

func TestMetricsOfWhatIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ConnectionsMax, o.SnapCount = 2, 20 })
		a := r.connect("a")
		silent := r.connect("silent")
		r.dial("third").wantClosed()
		for range 30 {
			a.create("/n", zk.PersistentSequential)
		}
		synctest.Wait()
		for range 4 {
			time.Sleep(5 * time.Second)
			a.ping()
		}
		silent.wantClosed()
		for name, want := range map[string]float64{
			"connection_rejected": 1, "stale_sessions_expired": 1, "connection_request_count": 2,
			"lockkeeper_commit_queue_requests": 0, "global_sessions": 1, "uptime": 20000,
		} {
			if got := r.metric(name).Value; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		m := r.metric("snapshottime")
		if n := m.Values.Count(); n < 1 || n > 3 {
			t.Errorf("%d snapshots after 33 transactions, one every 10 to 20", n)
		}
		if zxid, at := r.LastSnapshot(); zxid < 10 || at.IsZero() {
			t.Errorf("the last snapshot is that of 0x%x, written at %v", zxid, at)
		}
		m = r.metric("sync_processor_batch_size")
		if n := m.Values.Sum(); n != 33 { // 2 sessions, 30 znodes, 1 expiry
			t.Errorf("%d transactions were synced, want 33", n)
		}
		r.ResetStats()
		for _, m := range r.Metrics() {
			if m.Kind == Counter && m.Value != 0 || m.Values.Count() != 0 {
				t.Errorf("after a reset, %s is %v with %d values", m.Name, m.Value, m.Values.Count())
			}
		}
	})
}

// The newest snapshot is that of an earlier server until this one has written one.
func TestLastSnapshotOfAnEarlierServer(t *testing.T) {
	dir := t.TempDir()
	began := time.Now().Add(-time.Minute)
	for i := range 2 {
		s, err := Open(Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if zxid, at := s.LastSnapshot(); zxid != 0 || at.Before(began) {
			t.Errorf("start %d: the last snapshot is that of 0x%x, written at %v", i, zxid, at)
		}
		s.Close()
	}
}
