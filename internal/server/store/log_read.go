package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

const (
	logMagic      = 0x5a4b4c47 // "ZKLG"
	snapshotMagic = 0x5a4b534e // "ZKSN"
	formatVersion = 2

	fileHeaderBytes   = 16 // magic, version, dbid
	recordHeaderBytes = 12 // checksum, length
	recordEnd         = 'B'
	txnHeaderBytes    = 32

	// payloadBytesMax is the largest transaction that is read: ZooKeeper writes larger ones than
	// TxnBytesMax where its jute.maxbuffer has been raised.
	payloadBytesMax = 64 << 20
	readBufferBytes = 256 << 10
)

// logHeader is what every log begins with; the dbid of a log is 0.
var logHeader = binary.BigEndian.AppendUint64(
	binary.BigEndian.AppendUint32(
		binary.BigEndian.AppendUint32(nil, logMagic), formatVersion), 0)

// A logReader walks through one log.
type logReader struct {
	f    vfs.File
	path string
	size int64

	r      *bufio.Reader
	offset int64 // of the next record
	head   [recordHeaderBytes]byte
}

// A badRecord is the error of a log that is not whole from an offset on.
type badRecord struct {
	offset int64
	what   string
}

func (e *badRecord) Error() string { return fmt.Sprintf("at byte %d: %s", e.offset, e.what) }

// openLog opens a log and checks its header. A wrong one is a *badRecord at offset 0, beside which
// the reader is returned too.
func openLog(fs vfs.FS, path string) (*logReader, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		f.Close()
		return nil, err
	}
	r := &logReader{f: f, path: path, size: size, offset: fileHeaderBytes}
	r.r = bufio.NewReaderSize(io.NewSectionReader(f, 0, size), int(min(size, readBufferBytes)))
	var head [fileHeaderBytes]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil && !atEOF(err) {
		f.Close()
		return nil, err
	} else if err != nil {
		return r, &badRecord{0, "file header cut short"}
	}
	if !bytes.Equal(head[:8], logHeader[:8]) { // the dbid means nothing
		return r, &badRecord{0, "not the header of a log"}
	}
	return r, nil
}

func atEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func (r *logReader) close() { r.f.Close() }

// next returns the payload of the next record, which is the caller's. The error is io.EOF where the log ends as
// it should, with zeros or nothing behind it, and a *badRecord where it does not.
func (r *logReader) next() ([]byte, error) {
	bad := func(format string, args ...any) ([]byte, error) {
		return nil, &badRecord{r.offset, fmt.Sprintf(format, args...)}
	}
	n, err := io.ReadFull(r.r, r.head[:])
	if err != nil && !atEOF(err) {
		return nil, err
	}
	if isZero(r.head[:n]) {
		switch end, err := lastNonZero(r.f, r.offset, r.size); {
		case err != nil:
			return nil, err
		case end > r.offset:
			return bad("zeros where a record should be")
		}
		return nil, io.EOF
	}
	sum, length := binary.BigEndian.Uint64(r.head[:]), int64(int32(binary.BigEndian.Uint32(r.head[8:])))
	switch {
	case n < len(r.head):
		return bad("record cut short")
	case length < 0 || length > payloadBytesMax:
		return bad("record of %d bytes", length)
	case length < txnHeaderBytes:
		return bad("record of %d bytes, less than a transaction's header", length)
	case r.offset+recordHeaderBytes+length+1 > r.size:
		return bad("record cut short")
	}
	payload := make([]byte, length+1)
	if _, err := io.ReadFull(r.r, payload); err != nil {
		return nil, err
	}
	end := payload[length]
	payload = payload[:length:length]
	if end != recordEnd {
		return bad("record without its end mark")
	}
	if uint64(adler32.Checksum(payload)) != sum {
		return bad("checksum does not match")
	}
	r.offset += recordHeaderBytes + length + 1
	return payload, nil
}

// isRefusal reports whether a payload that is long enough for a header is that of a refused write.
func isRefusal(payload []byte) bool {
	return wire.Op(binary.BigEndian.Uint32(payload[txnHeaderBytes-4:])) == wire.OpError
}

// payloadZxid returns the zxid in a payload that is long enough for a header.
func payloadZxid(payload []byte) int64 { return int64(binary.BigEndian.Uint64(payload[12:])) }

// lastNonZero returns the offset behind the last byte in [from, size) that is not zero, or from.
func lastNonZero(f io.ReaderAt, from, size int64) (int64, error) {
	buf := make([]byte, min(readBufferBytes, size-from))
	last := from
	for off := from; off < size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-off)]
		n, err := f.ReadAt(buf, off)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if read := buf[:n]; !isZero(read) { // less than asked for if a server has just cut the zeros off
			last = off + int64(len(bytes.TrimRight(read, "\x00")))
		}
	}
	return last, nil
}

var zeros [4096]byte

func isZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}
