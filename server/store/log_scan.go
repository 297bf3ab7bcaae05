package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A logScan says what a log holds.
type logScan struct {
	path        string
	first, last int64 // zxids; 0 if there is none
	txns, gaps  int
	size, end   int64 // of the file, and behind the last whole record

	bad      *DamageError // where and why it ends, if not as it should
	torn     bool         // a crash explains that
	tailSize int64        // bytes of the torn tail
}

// scanLog reads a log and shows each record to visit, whose error ends the scan. Damage of the log
// is part of the result; the error is visit's, or that of the file system.
func scanLog(fs vfs.FS, path string, visit func(at int64, payload []byte) error) (scan logScan, err error) {
	r, err := openLog(fs, path)
	if r == nil {
		return scan, err
	}
	defer r.close()
	scan.path, scan.size = path, r.size
	for err == nil {
		at := r.offset
		var payload []byte
		if payload, err = r.next(); err != nil {
			break
		}
		zxid := payloadZxid(payload)
		if zxid <= scan.last {
			scan.bad = &DamageError{Path: path, Offset: at, Advice: adviceDamaged,
				What: fmt.Sprintf("transaction 0x%x comes after 0x%x", zxid, scan.last)}
			return scan, nil
		}
		if scan.txns == 0 {
			scan.first = zxid
		} else if !follows(scan.last, zxid) {
			scan.gaps++
		}
		scan.last, scan.end = zxid, r.offset
		scan.txns++
		err = visit(at, payload)
	}
	if err == io.EOF {
		scan.end = r.offset
		return scan, nil
	}
	bad := (*badRecord)(nil)
	if !errors.As(err, &bad) {
		return scan, err
	}
	scan.end = bad.offset
	scan.bad = &DamageError{Path: path, Offset: bad.offset, What: bad.what, Advice: adviceDamaged}
	t, short, err := r.readTail(bad.offset, scan.last)
	if err != nil || !short {
		return scan, err
	}
	if t.torn() {
		scan.torn, scan.tailSize = true, int64(len(t.bytes))
		scan.bad.Advice = adviceCut
	}
	return scan, nil
}

// follows reports whether no transaction is missing between two neighbours. A new epoch may begin
// at any time.
func follows(last, next int64) bool { return next == last+1 || next>>32 > last>>32 }

// What to do about damage.
const (
	adviceDamaged = "this is not the trace of a crash, and transactions behind it may have been acknowledged: put a good copy of the file back, or move it and all later logs away to go on without them"
	adviceCut     = "this is what a crash leaves in the middle of a write: nothing behind it was acknowledged, and the next start takes it away"
	adviceTorn    = "put a good copy of the file back, or move all later logs away to go on without them"
	adviceGap     = "put the missing log back; if Apache ZooKeeper wrote these and none is missing, start it on the directory once more, for the snapshot that it writes; or move this log and all later ones away to go on without them"
	adviceForeign = "a newer or a modified server wrote this: open the directory with that one"
)
