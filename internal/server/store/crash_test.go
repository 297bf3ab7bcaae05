package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A history is a run of a store under one seed: batches, snapshots, purges, restarts. It ends with
// the first error. It is the same, up to there, whatever goes wrong.
type history struct {
	rnd   *rand.Rand
	txns  []*txn.Txn      // that were tried; the index is the zxid − 1
	acked int64           // the last zxid that a Sync without error covers
	open  []int64         // sessions
	known map[int64]*twin // by zxid
}

const historySteps = 18

func (h *history) run(fs vfs.FS, o Options) error {
	var s *Store
	defer func() {
		if s != nil {
			s.Close()
		}
	}()
	for range historySteps {
		if s == nil {
			w := &twin{}
			var err error
			if s, err = Open(fs, o, w); err != nil {
				return err
			}
			if w.zxid != h.acked {
				return fmt.Errorf("opened at 0x%x after 0x%x was acknowledged", w.zxid, h.acked)
			}
			if err := s.WriteSnapshot(context.Background(), w.snapshot()); err != nil {
				return err
			}
		}
		switch n := h.rnd.IntN(12); {
		case n == 0:
			if err := s.WriteSnapshot(context.Background(), h.state(h.acked).snapshot()); err != nil {
				return err
			}
		case n == 1:
			if _, err := s.Purge(context.Background(), 1+h.rnd.IntN(3)); err != nil {
				return err
			}
		case n == 2:
			err := s.Close()
			s = nil
			if err != nil {
				return err
			}
		default:
			if err := s.Append(h.batch()); err != nil {
				return err
			}
			if n == 3 { // the log changes between two appends and their sync
				if err := s.WriteSnapshot(context.Background(), h.state(h.acked).snapshot()); err != nil {
					return err
				}
				if err := s.Append(h.batch()); err != nil {
					return err
				}
			}
			if err := s.Sync(); err != nil {
				return err
			}
			h.acked = int64(len(h.txns))
		}
	}
	return nil
}

func (h *history) batch() (batch []Record) {
	for range 1 + h.rnd.IntN(6) {
		t := h.next()
		h.txns = append(h.txns, t)
		batch = append(batch, Record{Txn: t})
	}
	return batch
}

// next makes up a transaction: most create or set; some open a session, some close one.
func (h *history) next() *txn.Txn {
	zxid := int64(len(h.txns) + 1)
	t := createTxn(zxid, h.rnd.IntN(1500))
	switch n := h.rnd.IntN(10); {
	case n == 0 || len(h.open) == 0:
		t.Session, t.Change = 1000+zxid, txn.Change{Type: wire.OpCreateSession, Timeout: 4000}
		h.open = append(h.open, t.Session)
	case n == 1:
		t.Session, t.Change = h.open[0], txn.Change{Type: wire.OpCloseSession}
		h.open = h.open[1:]
	case n < 6:
		t.Session, t.Ephemeral = h.open[h.rnd.IntN(len(h.open))], true
	case n == 6:
		t.Change = txn.Change{Type: wire.OpError, Err: zk.ErrNoNode}
	case n == 7:
		t.Change = txn.Change{Type: wire.OpMulti, Subs: []txn.Change{t.Change, {Type: wire.OpSetData, Path: t.Path, Version: 1}}}
	}
	return t
}

// state is that after transactions 1 to zxid.
func (h *history) state(zxid int64) *twin { return model(h.txns, zxid) }

// check opens what a crash has left, and returns the zxid found: everything that was acknowledged or
// shown is there, nothing by half, no ephemeral without its session.
func (h *history) check(t *testing.T, what string, fs *vfs.Mem, o Options, shown int64) int64 {
	t.Helper()
	w := &twin{}
	s, err := Open(fs, o, w)
	if err != nil {
		t.Fatalf("%s: Open: %v", what, err)
	}
	defer s.Close()
	if w.zxid < shown || w.zxid > int64(len(h.txns)) {
		t.Fatalf("%s: found 0x%x; 0x%x was promised, 0x%x was tried", what, w.zxid, shown, len(h.txns))
	}
	if h.known[w.zxid] == nil {
		h.known[w.zxid] = h.state(w.zxid)
	}
	if want := h.known[w.zxid]; !w.equal(want) {
		t.Fatalf("%s: found\n%swant\n%s", what, w.dump(), want.dump())
	}
	for path, n := range w.nodes {
		if owner := txn.OwnerSession(n.Owner); owner != 0 && w.sessions[owner] == 0 {
			t.Fatalf("%s: %s belongs to session 0x%x, which is gone", what, path, owner)
		}
	}
	return w.zxid
}

// TestF44_CrashAtEveryOperation lets every operation on the disk fail in turn, alone or with all
// that come after it, and looks at what is left: as the process leaves it, as a power failure does, and
// as a power failure does after a start that has shown what the process had left.
func TestF44_CrashAtEveryOperation(t *testing.T) {
	errBroken := errors.New("broken")
	for seed := range uint64(4) {
		o := Options{DataDir: "/data", PreAllocBytes: []int64{4096, 64 << 10}[seed%2]}
		if seed >= 2 {
			o.LogDir = "/log"
		}
		whole := vfs.NewMem()
		start := func() *history { return &history{rnd: rand.New(rand.NewPCG(seed, 0)), known: map[int64]*twin{}} }
		if err := start().run(whole, o); err != nil {
			t.Fatalf("seed %d, undisturbed: %v", seed, err)
		}
		for nth := int64(1); nth <= whole.Ops(); nth++ {
			for _, alone := range []bool{true, false} {
				what := fmt.Sprintf("seed %d, operation %d of %d (alone: %t)", seed, nth, whole.Ops(), alone)
				fs, h := vfs.NewMem(), start()
				var op vfs.Op
				fs.SetFault(func(o vfs.Op, path string, n int64) error {
					if n == nth {
						op = o
					}
					switch {
					case alone && n == nth:
						return errBroken
					case !alone && n >= nth:
						return vfs.ErrPowerLost
					}
					return nil
				})
				err := h.run(fs, o)
				// A store survives a failed cut of its padding, and a snapshot that it cannot read.
				survived := err == nil && (op == vfs.OpTruncate || op == vfs.OpOpen || op == vfs.OpRead)
				if !survived && !errors.Is(err, errBroken) && !errors.Is(err, vfs.ErrPowerLost) {
					t.Fatalf("%s: the history ended with %v", what, err)
				}
				what = fmt.Sprintf("%s, %s", what, op)
				killed := fs.KillClone()
				wantHeaders(t, what+", killed", killed, o)
				wantHeaders(t, what+", power lost", fs.CrashClone(nil), o)
				shown := h.check(t, what+", killed", killed, o, h.acked)
				h.check(t, what+", killed, started, power lost", killed.CrashClone(nil), o, shown)
				h.check(t, what+", power lost", fs.CrashClone(nil), o, h.acked)
				for round := range uint64(3) {
					rnd := rand.New(rand.NewPCG(seed, uint64(nth)<<8|round))
					torn := fs.CrashClone(rnd)
					shown := h.check(t, fmt.Sprintf("%s, power lost, torn %d", what, round), torn, o, h.acked)
					h.check(t, fmt.Sprintf("%s, power lost twice, torn %d", what, round), torn.CrashClone(rnd), o, shown)
				}
			}
		}
	}
}

// wantHeaders checks that all logs have their headers: without one, Apache ZooKeeper does not start on the directory.
func wantHeaders(t *testing.T, what string, fs vfs.FS, o Options) {
	t.Helper()
	_, dir := o.dirs()
	names, err := fs.ReadDir(dir)
	if err != nil { // the directory was not made yet
		return
	}
	for _, name := range names {
		if !strings.HasPrefix(name, logPrefix) {
			continue
		}
		f, err := fs.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, len(logHeader))
		if _, err := f.ReadAt(head, 0); err != nil || !bytes.Equal(head, logHeader) {
			t.Errorf("%s: %s has no header: %x, %v", what, name, head, err)
		}
		f.Close()
	}
}
