package store

import (
	"errors"
	"io"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A logScan says what a log holds.
type logScan struct {
	path        string
	first, last int64 // the first zxid and the highest; 0 if there is none
	txns        int
	gaps        int   // where zxids are missing
	repeats     int   // transactions behind one of a higher zxid
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
	last := int64(0)
	for err == nil {
		at := r.offset
		var payload []byte
		if payload, err = r.next(); err != nil {
			break
		}
		zxid := payloadZxid(payload)
		switch {
		case scan.txns == 0:
			scan.first = zxid
		case zxid <= scan.last:
			if !isRefusal(payload) {
				scan.repeats++
			}
		case !follows(scan.last, zxid):
			scan.gaps++
		}
		last, scan.last, scan.end = zxid, max(scan.last, zxid), r.offset
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
	t, short, err := r.readTail(bad.offset, last)
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
	adviceTwice   = "what is in this log and what is in earlier ones, or further up in it, are two histories: put the right ones back, and move the others away"
	adviceForeign = "a newer or a modified server wrote this: open the directory with that one"
)
