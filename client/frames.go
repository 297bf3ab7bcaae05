package client

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A frameReader takes messages off a connection. The reading goroutine can stop between any two bytes, and another
// one goes on from there.
type frameReader struct {
	from     io.Reader
	clock    clock.Clock
	patience time.Duration // how long the server may be silent
	bytesMax int           // of a message

	buf   []byte
	r, w  int           // buf[r:w] has arrived and has not been taken
	heard clock.Instant // when something last came; no message in buf is newer
	due   time.Time     // when the rest of the message that has begun has to be there; zero if none has

	// Of a message that is too long to be kept.
	length int32 // zero if there is none
	head   [replyHeaderBytes]byte
	skip   int64 // how much of it is still to come
}

const (
	framesRead     = 16 << 10 // are read at once
	framesKept     = 64 << 10 // a larger buffer is not kept from one message to the next
	slowest        = 64 << 10 // bytes of a message that has begun that are enough in a second
	frameHeadBytes = 4
)

// replyHeaderBytes is what every message begins with.
const replyHeaderBytes = 16

// next takes the next message that has arrived as a whole; it is valid until the next fill. Without one, ok is false.
// Of a message that is longer than bytesMax it returns the header and a *SizeError: a listing that is too long must not
// end the connection, again and again.
func (in *frameReader) next() (message []byte, skipped error, ok bool, err error) {
	if in.length > 0 {
		return in.nextSkipped()
	}
	here := in.buf[in.r:in.w]
	if len(here) < frameHeadBytes {
		return nil, nil, false, nil
	}
	n, err := wire.FrameLength([frameHeadBytes]byte(here), in.bytesMax)
	if err != nil {
		if length := int32(binary.BigEndian.Uint32(here)); length >= replyHeaderBytes {
			in.expect(int64(length) - int64(len(here)-frameHeadBytes))
			if len(here) < frameHeadBytes+replyHeaderBytes {
				return nil, nil, false, nil
			}
			in.length, in.skip = length, int64(length)-replyHeaderBytes
			in.r += frameHeadBytes + copy(in.head[:], here[frameHeadBytes:])
			return in.nextSkipped()
		}
		return nil, nil, false, err
	}
	if missing := frameHeadBytes + n - len(here); missing > 0 {
		in.expect(int64(missing))
		return nil, nil, false, nil
	}
	in.r += frameHeadBytes + n
	in.due = time.Time{}
	return here[frameHeadBytes : frameHeadBytes+n], nil, true, nil
}

// nextSkipped is next within a message that is too long.
func (in *frameReader) nextSkipped() (message []byte, skipped error, ok bool, err error) {
	n := min(in.skip, int64(in.w-in.r))
	in.r, in.skip = in.r+int(n), in.skip-n
	if in.skip > 0 {
		return nil, nil, false, nil
	}
	skipped = &SizeError{Bytes: int64(in.length), Max: in.bytesMax}
	in.length, in.due = 0, time.Time{}
	return in.head[:], skipped, true, nil
}

// expect notes that a message has begun, and so many bytes of it are missing. The rest has no more time than its length
// deserves: a server that sends a byte now and then is not alive.
func (in *frameReader) expect(bytes int64) {
	if in.due.IsZero() {
		in.due = time.Now().Add(in.patience + time.Duration(bytes)*time.Second/slowest)
	}
}

// deadline returns until when the next bytes have to come.
func (in *frameReader) deadline() time.Time {
	silent := in.heard.Time().Add(in.patience) // of all goroutines that read: the time does not begin anew with each
	if in.due.IsZero() || silent.Before(in.due) {
		return silent
	}
	return in.due
}

// overdue reports whether the rest of a message that has begun has not come in time.
func (in *frameReader) overdue() bool { return !in.due.IsZero() && !time.Now().Before(in.due) }

// fill reads what has arrived, or waits for it.
func (in *frameReader) fill() error {
	switch {
	case in.r == in.w:
		in.r, in.w = 0, 0
		if len(in.buf) > framesKept || in.buf == nil {
			in.buf = make([]byte, framesRead)
		}
	case in.w < len(in.buf):
	case in.r > 0:
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	default: // a length alone claims no memory: bytes have to have come
		whole := frameHeadBytes + int(binary.BigEndian.Uint32(in.buf))
		grown := make([]byte, min(2*len(in.buf), whole))
		copy(grown, in.buf)
		in.buf = grown
	}
	n, err := in.from.Read(in.buf[in.w:])
	in.w += n
	switch {
	case n > 0:
		in.heard = in.clock.Now()
		return nil // an error comes again
	case err == io.EOF && (in.w > in.r || in.length > 0):
		return io.ErrUnexpectedEOF
	}
	return err
}
