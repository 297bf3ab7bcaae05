package store

import (
	"cmp"
	"errors"
	"log/slog"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A Report says what is in a directory.
type Report struct {
	Snapshots []SnapshotReport // oldest first
	Logs      []LogReport      // oldest first
	Found     Recovery         // what Open would find
	Err       error            // why Open would refuse, or nil
}

// A SnapshotReport says what is in one snapshot.
type SnapshotReport struct {
	Path     string
	Bytes    int64
	Zxid     int64 // by its name
	Nodes    int
	Sessions int
	ACLs     int
	Digest   *SnapshotDigest // nil if it has none
	Err      error           // why it cannot be read; the counts end there
}

// A LogReport says what is in one log.
type LogReport struct {
	Path        string
	Bytes       int64 // of the file
	UsedBytes   int64 // up to the end of the last whole record
	First, Last int64 // zxids; 0 if it holds no transactions
	Txns        int
	Gaps        int          // places where zxids are missing between two neighbours
	Damage      *DamageError // where reading ended, if not at the end
	Torn        bool         // the damage is what a crash leaves: nothing behind it was acknowledged
}

// Check reads a directory from end to end and changes nothing. It takes no lock: while a server is
// at work there, the newest log may look torn. The error is that of a directory which cannot be
// read at all.
func Check(fs vfs.FS, o Options) (*Report, error) {
	snapshots, logs, err := o.list(fs)
	if damage := (*DamageError)(nil); errors.As(err, &damage) {
		return &Report{Err: err}, nil
	} else if err != nil {
		return nil, err
	}
	report := &Report{}
	for _, s := range snapshots {
		report.Snapshots = append(report.Snapshots, checkSnapshot(fs, s))
	}
	for _, l := range logs {
		scan, err := scanLog(fs, l.path, func(int64, []byte) error { return nil })
		if err != nil {
			return nil, err
		}
		report.Logs = append(report.Logs, LogReport{
			Path: l.path, Bytes: scan.size, UsedBytes: scan.end,
			First: scan.first, Last: scan.last, Txns: scan.txns, Gaps: scan.gaps,
			Damage: scan.bad, Torn: scan.torn,
		})
	}
	r := &recovery{fs: fs, o: &o, log: slog.New(slog.DiscardHandler), l: discard{}}
	report.Err = r.run()
	report.Found = r.found
	if r.newest != nil {
		report.Found.CutBytes = r.newest.tailSize
	}
	return report, nil
}

func checkSnapshot(fs vfs.FS, s file) SnapshotReport {
	c := &snapshotCounter{SnapshotReport: SnapshotReport{Path: s.path, Zxid: s.zxid}}
	c.Err = readSnapshot(fs, s, c)
	if f, err := fs.Open(s.path); err == nil {
		c.Bytes, err = f.Size()
		c.Err = cmp.Or(c.Err, err)
		f.Close()
	}
	return c.SnapshotReport
}

// A snapshotCounter is a Loader that counts what is in one snapshot.
type snapshotCounter struct {
	discard
	SnapshotReport
}

func (c *snapshotCounter) Session(txn.SessionEntry) error { c.Sessions++; return nil }
func (c *snapshotCounter) ACL(txn.ACLEntry) error         { c.ACLs++; return nil }
func (c *snapshotCounter) Node(txn.Node) error            { c.Nodes++; return nil }
func (c *snapshotCounter) EndSnapshot(_ int64, d *SnapshotDigest) error {
	c.Digest = d
	return nil
}

// Read gives what a directory holds to l, as Open does, and neither locks nor changes anything. It is for directories in
// which no server is at work.
func Read(fs vfs.FS, o Options, l Loader) (Recovery, error) {
	r := &recovery{fs: fs, o: &o, log: slog.New(slog.DiscardHandler), l: l}
	err := r.run()
	if r.newest != nil {
		r.found.CutBytes = r.newest.tailSize
	}
	return r.found, err
}
