package store

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// snapshotsTriedMax is how many snapshots are tried, newest first, before giving up.
const snapshotsTriedMax = 100

// A recovery reads what a directory holds. It changes nothing: what is to be repaired is noted.
type recovery struct {
	fs  vfs.FS
	o   *Options
	log *slog.Logger
	l   Loader

	found  Recovery
	bytes  int64                // of the records that were replayed
	passed []unreadableSnapshot // snapshots that could not be read, newest first
	gaps   []gap                // over which the replay went
	seen   []replayedTxn        // what was replayed, in ascending order
	newest *logScan             // the newest log; nil if there is none
	older  []string             // paths of what was read besides: the snapshot, and the logs before the newest

	// live says that a server may be at work in the directory: parts then has what is whole of the files.
	live  bool
	parts []Part
}

// unreadableSnapshot is a snapshot that could not be read.
type unreadableSnapshot struct {
	file
	err error
}

// A gap is where zxids are missing between two neighbours in one log. Apache ZooKeeper leaves it behind in two ways:
// it numbers a multi in which a path is null, and does not log it; and a follower that was sent a snapshot,
// for it lacked too much, goes on in the log that it had. In the first case nothing was lost, in the
// second nothing but with that snapshot.
type gap struct {
	last, next int64 // zxids
	at         int64 // offset of the record with next
}

// replayedTxn is a transaction that was replayed. A follower of Apache ZooKeeper's may have it in its logs once more:
// when it joins its leader again, it logs again what it had not yet carried out.
type replayedTxn struct {
	zxid int64
	sum  uint32
}

// run loads the newest snapshot that is whole and replays the logs behind it.
func (r *recovery) run() error {
	snapshots, logs, err := r.o.list(r.fs)
	if err != nil {
		return err
	}
	switch {
	case len(snapshots) > 0:
		if err := r.loadSnapshot(snapshots); err != nil {
			return err
		}
	case len(logs) > 0 && !r.o.TrustEmpty:
		return &DamageError{
			Path: logs[0].path, Offset: -1, What: "there are logs, but no snapshot to start from",
			Advice: "put the snapshot back; only if the logs reach back to the very first transaction, as those of ZooKeeper 3.4 may, set snapshot.trust.empty=true",
		}
	default:
		r.found.Fresh = len(logs) == 0
		r.l.Reset()
		if err := r.l.EndSnapshot(0, nil); err != nil {
			return err
		}
	}
	if r.live {
		// The snapshot has been finished since the logs were listed, maybe: what it holds of later transactions may be
		// in a log that is younger than the list.
		if _, logs, err = r.o.list(r.fs); err != nil {
			return err
		}
	}
	r.found.Zxid = r.found.SnapshotZxid
	if _, dir := r.o.dirs(); len(logs) == 0 && r.found.Zxid > 0 { // a backup may be so
		r.log.Warn("there is a snapshot and no log; if there were logs, their directory is not mounted, or is another one (dataLogDir), and what they hold is missing",
			"path", r.found.Snapshot, "logs", dir)
	}
	if err := r.replay(logs); err != nil {
		return r.blamePassed(err)
	}
	for _, p := range r.passed {
		if lacks := r.lacks(p.zxid); lacks != "" {
			return &DamageError{
				Path: p.path, Offset: -1,
				What:   fmt.Sprintf("the snapshot cannot be read (%v), and %s", p.err, lacks),
				Advice: adviceSnapshot(p.err, "put a good copy back, or delete it to go on without what it held"),
			}
		}
	}
	return nil
}

// lacks says what is missing of what a snapshot up to a transaction held; "" is nothing.
func (r *recovery) lacks(zxid int64) string {
	if zxid > r.found.Zxid {
		return fmt.Sprintf("what is older reaches only transaction 0x%x", r.found.Zxid)
	}
	for _, g := range r.gaps {
		if g.last < zxid && zxid < g.next {
			return fmt.Sprintf("the logs lack what it held behind transaction 0x%x", g.last)
		}
	}
	return ""
}

func (r *recovery) loadSnapshot(snapshots []file) error {
	for i := len(snapshots) - 1; i >= 0 && len(r.passed) < snapshotsTriedMax; i-- {
		s := snapshots[i]
		r.l.Reset()
		err := readSnapshot(r.fs, s, r.l)
		if err == nil {
			r.found.Snapshot, r.found.SnapshotZxid = s.path, s.zxid
			r.older = append(r.older, s.path)
			return nil
		}
		r.passed = append(r.passed, unreadableSnapshot{s, err})
		r.log.Warn("a snapshot cannot be read; trying an older one", "path", s.path, "error", err)
	}
	newest := r.passed[0]
	return &DamageError{
		Path: newest.path, Offset: -1,
		What:   fmt.Sprintf("none of %d snapshots can be read; the newest: %v", len(r.passed), newest.err),
		Advice: adviceSnapshot(newest.err, "put a good copy of the snapshots and the logs back"),
		Err:    newest.err,
	}
}

// adviceSnapshot is what to do about a snapshot that cannot be read: damaged, unless the error says that it need not be.
func adviceSnapshot(err error, damaged string) string {
	if errors.Is(err, errCompression) {
		return "start Apache ZooKeeper on the directory once more, without snapshot.compression.method: it writes one that can be read"
	}
	return damaged
}

// blamePassed adds to an error of the replay that a newer snapshot would have spared it.
func (r *recovery) blamePassed(err error) error {
	if damage := (*DamageError)(nil); len(r.passed) > 0 && errors.As(err, &damage) {
		newest := r.passed[0]
		damage.What += fmt.Sprintf(" (needed because %s cannot be read: %v)", newest.path, newest.err)
	}
	return err
}

// replay applies what the logs hold beyond the snapshot. A log that is not the newest may end in a
// torn record only if the next one takes up where it ends.
func (r *recovery) replay(logs []file) error {
	start := 0
	for i, log := range logs {
		if log.zxid <= r.found.SnapshotZxid+1 {
			start = i
		}
	}
	for _, log := range logs[start:] {
		if before := r.newest; before != nil && before.torn {
			if !follows(r.found.Zxid, log.zxid) {
				before.bad.What += fmt.Sprintf("; the last transaction before is 0x%x, and %s does not take up there", r.found.Zxid, log.path)
				before.bad.Advice = adviceTorn
				return before.bad
			}
			r.log.Warn("a log ends in a torn record; the next one takes up where it ends",
				"path", before.path, "offset", before.end, "what", before.bad.What)
		}
		before := len(r.gaps)
		scan, err := scanLog(r.fs, log.path, func(at int64, payload []byte) error {
			return r.replayRecord(log, at, payload)
		})
		if err != nil {
			return err
		}
		if scan.repeats > 0 {
			r.log.Warn("transactions are in a log more than once, as a follower of Apache ZooKeeper writes them that joins its leader again; going on",
				"path", log.path, "transactions", scan.repeats)
		}
		if gaps := r.gaps[before:]; len(gaps) > 0 {
			r.log.Warn("zxids are missing within a log, as Apache ZooKeeper leaves them out; going on",
				"path", log.path, "offset", gaps[0].at, "after", fmt.Sprintf("0x%x", gaps[0].last), "next", fmt.Sprintf("0x%x", gaps[0].next), "places", len(gaps))
		}
		if scan.bad != nil && !scan.torn {
			written, err := r.writtenSince(&scan)
			switch {
			case err != nil:
				return err
			case !written:
				return scan.bad
			}
			scan.bad = nil
		}
		if r.newest != nil {
			r.older = append(r.older, r.newest.path)
		}
		r.newest = &scan
		if r.live && scan.end >= fileHeaderBytes {
			r.parts = append(r.parts, Part{Path: log.path, Log: true, Bytes: scan.end})
		}
	}
	return nil
}

// replayRecord applies one record, unless the snapshot had it.
func (r *recovery) replayRecord(log file, at int64, payload []byte) error {
	zxid := payloadZxid(payload)
	damage := func(what, advice string) error {
		return &DamageError{Path: log.path, Offset: at, What: what, Advice: advice}
	}
	switch last := r.found.Zxid; {
	case zxid <= r.found.SnapshotZxid:
		return nil
	case zxid <= last && isRefusal(payload): // changes nothing, and ZooKeeper 3.9 gives it the zxid before if it cannot read the request
		return nil
	case zxid <= last:
		i, ok := slices.BinarySearchFunc(r.seen, zxid, func(s replayedTxn, zxid int64) int { return cmp.Compare(s.zxid, zxid) })
		if !ok || r.seen[i].sum != crc32.ChecksumIEEE(payload) {
			return damage(fmt.Sprintf("transaction 0x%x comes after 0x%x, and was another one before", zxid, last), adviceTwice)
		}
		return nil
	case follows(last, zxid):
	case at > fileHeaderBytes:
		r.gaps = append(r.gaps, gap{last, zxid, at})
	default: // between two logs there may have been another one
		return damage(fmt.Sprintf("transaction 0x%x follows 0x%x: %d are missing", zxid, last, zxid-last-1), adviceGap)
	}
	t, digest, err := txn.Decode(payload)
	if err != nil {
		return damage(fmt.Sprintf("%v, though its checksum is right", err), adviceForeign)
	}
	if err := r.l.Apply(&t, digest); err != nil {
		return fmt.Errorf("%s: at byte %d: transaction 0x%x: %w", log.path, at, zxid, err)
	}
	r.found.Zxid = zxid
	r.found.Txns++
	r.bytes += recordHeaderBytes + int64(len(payload)) + 1
	r.seen = append(r.seen, replayedTxn{zxid, crc32.ChecksumIEEE(payload)})
	return nil
}

// repair makes the directory what run found: it cuts the torn tail, and makes durable what was
// read, which may be no more than the system's memory of it. Without that a reader could be shown what a
// power failure then takes back.
func (r *recovery) repair() error {
	if r.newest != nil {
		if err := r.repairNewest(); err != nil {
			return err
		}
	}
	if err := r.removeTemps(); err != nil {
		return err
	}
	if r.o.SyncDisabled {
		return nil
	}
	for _, path := range r.older {
		if err := syncFile(r.fs, path); err != nil {
			return err
		}
	}
	snapshotDir, logDir := r.o.dirs()
	if err := r.fs.SyncDir(logDir); err != nil || logDir == snapshotDir {
		return err
	}
	return r.fs.SyncDir(snapshotDir)
}

// repairNewest makes the newest log durable as far as it is whole, and cuts what is torn. It does
// not rely on a sync alone: if one failed in the last run, the system has forgotten that the disk lacks
// something, though it still shows it. So what may not have been synced is written once more.
func (r *recovery) repairNewest() error {
	n := r.newest
	if n.torn {
		r.found.CutBytes = n.tailSize
		r.log.Warn("cutting the torn end of the newest log; nothing in it was acknowledged",
			"path", n.path, "offset", n.end, "bytes", n.tailSize, "what", n.bad.What)
	}
	if n.end == 0 { // not even a header: ZooKeeper refuses to start on such a file
		return r.fs.Remove(n.path)
	}
	f, err := r.fs.OpenWrite(n.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if !r.o.SyncDisabled {
		from := max(0, n.end-tornBytesMax)
		b := make([]byte, n.end-from)
		if _, err := f.ReadAt(b, from); err != nil && err != io.EOF {
			return err
		}
		if _, err := f.WriteAt(b, from); err != nil {
			return err
		}
		if err := f.Datasync(); err != nil {
			return err
		}
	}
	if !n.torn {
		return nil
	}
	if err := f.Truncate(n.end); err != nil || r.o.SyncDisabled {
		return err
	}
	return f.Datasync()
}

func syncFile(fs vfs.FS, path string) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Datasync()
}

// removeTemps deletes what was left of snapshots and logs that were being made.
func (r *recovery) removeTemps() error {
	dir, logs := r.o.dirs()
	for _, dir := range slices.Compact([]string{dir, logs}) {
		names, err := r.fs.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if isTempName(name) {
				if err := r.fs.Remove(filepath.Join(dir, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
