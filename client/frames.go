package client

import (
	"encoding/binary"
	"io"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A frameReader takes messages off a connection. A goroutine that reads can stop between any two bytes, and another one goes on there.
type frameReader struct {
	// Fixed when made.
	from     io.Reader
	clock    clock.Clock
	patience time.Duration // how long the server may be silent
	bytesMax int           // of a message

	buf     []byte
	r, w    int           // buf[r:w] has arrived and has not been taken
	heard   clock.Instant // when something last came; no message in buf is newer
	silent  time.Time     // when the server has been silent for too long; for all goroutines that read
	due     time.Time     // when the rest of the message that has begun has to be there; zero if none has
	dropped int           // bytes of a message that is too long to be kept; its header stays in buf
}

const (
	framesRead     = 16 << 10 // are read at once
	framesKept     = 64 << 10 // a larger buffer is not kept from one message to the next
	slowest        = 64 << 10 // bytes a second: the slowest rate at which a message that has begun may come
	frameHeadBytes = 4

	replyHeaderBytes = 16 // what every message begins with
)

// next takes the next message that has arrived as a whole; it is valid until the next fill. Nil: there is none. Of a message that is
// longer than bytesMax it returns the header and a *SizeError: a listing that is too long must not end the connection, again and again.
func (in *frameReader) next() (message []byte, skipped, err error) {
	here := in.buf[in.r:in.w]
	if len(here) < frameHeadBytes {
		return nil, nil, nil
	}
	length := int(int32(binary.BigEndian.Uint32(here)))
	keep, err := wire.FrameLength([frameHeadBytes]byte(here), in.bytesMax)
	if err != nil {
		if length < replyHeaderBytes {
			return nil, nil, err
		}
		keep, skipped = replyHeaderBytes, &SizeError{Bytes: int64(length), Max: in.bytesMax}
	}
	end := frameHeadBytes + keep
	if skipped != nil && len(here) > end {
		n := min(len(here)-end, length-keep-in.dropped)
		here = slices.Delete(here, end, end+n)
		in.w, in.dropped = in.w-n, in.dropped+n
	}
	if missing := length - in.dropped - (len(here) - frameHeadBytes); missing > 0 {
		// The rest has no more time than its length deserves: a server that sends a byte now and then is not alive.
		if in.due.IsZero() {
			in.due = time.Now().Add(in.patience + time.Duration(missing)*time.Second/slowest)
		}
		return nil, nil, nil
	}
	in.r += end
	in.due, in.dropped = time.Time{}, 0
	return here[frameHeadBytes:end], skipped, nil
}

// deadline returns until when the next bytes have to come.
func (in *frameReader) deadline() time.Time {
	if in.due.IsZero() || in.silent.Before(in.due) {
		return in.silent
	}
	return in.due
}

// hear notes that something has come at t, which is now. The deadline counts no suspended time: what the server sent meanwhile is read first.
func (in *frameReader) hear(t time.Time) { in.heard, in.silent = in.clock.At(t), t.Add(in.patience) }

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
		in.w, in.r = copy(in.buf, in.buf[in.r:in.w]), 0
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
		in.hear(time.Now())
		return nil // an error comes again
	case err == io.EOF && in.w > in.r:
		return io.ErrUnexpectedEOF
	}
	return err
}
