package store

import (
	"bytes"
	"encoding/binary"
	"hash/adler32"
)

const (
	// sectorBytes is what a disk writes whole or not at all.
	sectorBytes = 512

	// unsyncedBytesMax is how much is appended to a log before it is synced, asked or not. It is
	// what bounds the damage that a crash can do: a torn tail is not longer than this and one
	// transaction.
	unsyncedBytesMax = 4 << 20
	tornBytesMax     = 8 << 20
)

// A tail is what a log holds from the first record that is not whole to the last byte that is not
// zero. It is either torn, by a crash in the middle of a write that was never acknowledged,
// or damaged. They differ in the traces that each leaves:
//
// A crash leaves out what had not reached the disk: the end of the write, or whole sectors in
// the middle of it. Logs are written into zeros or past the end of the file, so what was left out
// reads as zeros or as the end of the file. Whole records may stand behind such a hole, but none
// further on than one write reaches.
//
// Bits that rotted leave no such hole, and records that had been acknowledged may follow.
type tail struct {
	offset int64  // in the file
	bytes  []byte // up to the last that is not zero
	size   int64  // of the file
	last   int64  // zxid of the last whole record before
}

// readTail reads the tail that begins at an offset. ok is false if it is too long to be torn.
func (r *logReader) readTail(offset, last int64) (t tail, ok bool, err error) {
	end, err := lastNonZero(r.f, offset, r.size)
	if err != nil || end-offset > tornBytesMax {
		return tail{}, false, err
	}
	t = tail{offset: offset, bytes: make([]byte, end-offset), size: r.size, last: last}
	if n, err := r.f.ReadAt(t.bytes, offset); n < len(t.bytes) {
		return tail{}, false, err
	}
	return t, true, nil
}

// torn reports whether a crash explains the tail.
func (t tail) torn() bool {
	if t.offset < fileHeaderBytes { // the file's own header is not whole: only a file without records is excused
		return len(t.bytes) < fileHeaderBytes && bytes.HasPrefix(logHeader, t.bytes)
	}
	if follower := t.nextRecord(); follower >= 0 {
		head := t.bytes[follower:]
		return t.hasHole(follower + len(head) - len(bytes.TrimLeft(head, "\x00"))) // the record's own zeros are no hole
	}
	if len(t.bytes) <= recordHeaderBytes {
		return true // the end of the write is missing, from within the first record's header
	}
	length := int64(int32(binary.BigEndian.Uint32(t.bytes[8:])))
	if length > 0 && length <= payloadBytesMax && int64(len(t.bytes)) < recordHeaderBytes+length+1 {
		return t.reach() >= len(t.bytes) || !t.isWhole() // the same, from within the first record's payload, or only the end mark
	}
	return t.hasHole(len(t.bytes))
}

// isWhole reports whether the tail is one record to its end mark, and only the length in front of it is wrong. A crash can leave out
// bytes that the length counts, but then the checksum does not fit what is there.
func (t tail) isWhole() bool {
	end := len(t.bytes) - 1
	return t.bytes[end] == recordEnd &&
		uint64(adler32.Checksum(t.bytes[recordHeaderBytes:end])) == binary.BigEndian.Uint64(t.bytes)
}

// nextRecord returns the position of the first whole record behind the one that is not, or −1. What lies within that one is
// no record: a client may have chosen data that looks like one.
func (t tail) nextRecord() int {
	for p := max(t.reach(), 1); p+recordHeaderBytes+txnHeaderBytes < len(t.bytes); p++ {
		b := t.bytes[p:]
		if !isZero(b[:leadingZeros]) {
			continue
		}
		sum, length := binary.BigEndian.Uint32(b[4:]), int(int32(binary.BigEndian.Uint32(b[8:])))
		if length < txnHeaderBytes || length > len(b)-recordHeaderBytes-1 || b[recordHeaderBytes+length] != recordEnd {
			continue
		}
		payload := b[recordHeaderBytes : recordHeaderBytes+length]
		if payloadZxid(payload) > t.last && adler32.Checksum(payload) == sum {
			return p
		}
	}
	return -1
}

// leadingZeros is with how many zeros every record begins: the upper half of its checksum. As part of
// a sector that was left out they are not missed.
const leadingZeros = 4

// hasHole reports whether a sector was left out of the first n bytes. Of the sector in which the
// tail begins, only what lies in the tail counts.
func (t tail) hasHole(n int) bool {
	for from := 0; from < n; {
		to := from + sectorBytes - int((t.offset+int64(from))%sectorBytes)
		if to > n {
			return false
		}
		if to-from > leadingZeros && isZero(t.bytes[from:to]) {
			return true
		}
		from = to
	}
	return false
}
