package faultproxy

import (
	"errors"
	"net"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// replyBytesMax bounds a frame from a server: unlike a client's, it may be larger than what the
// server itself would accept.
const replyBytesMax = 64 << 20

// errOpaque is a stream's error when it is known not to consist of frames.
var errOpaque = errors.New("not frames")

// A stream cuts the bytes of one direction into frames.
type stream struct {
	frameBytesMax int
	buf           []byte
	count         int   // frames cut off so far
	err           error // the next bytes are no frame; sticks
}

func (s *stream) push(b []byte) { s.buf = append(s.buf, b...) }

// frames yields the complete frames in the buffer, with their lengths in front. A frame belongs to
// the receiver: nothing is written over it.
func (s *stream) frames(yield func([]byte) bool) {
	for s.err == nil && len(s.buf) >= 4 {
		n, err := wire.FrameLength([4]byte(s.buf), s.frameBytesMax)
		if err != nil {
			s.err = err
			return
		}
		if len(s.buf) < 4+n {
			return
		}
		frame := s.buf[: 4+n : 4+n]
		s.buf = s.buf[4+n:]
		s.count++
		if !yield(frame) {
			return
		}
	}
}

// takeAll returns the bytes that are no frames.
func (s *stream) takeAll() []byte {
	b := s.buf
	s.buf = nil
	return b
}

// An outbox gathers frames, so that those which came in one read leave in one write.
type outbox struct {
	to  net.Conn
	buf []byte
}

func (o *outbox) add(frame []byte) { o.buf = append(o.buf, frame...) }

// flush sends what has been gathered.
func (o *outbox) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	_, err := o.to.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}
