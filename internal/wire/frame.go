package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// FrameBytesMax is the largest frame that a ZooKeeper server accepts by default
// (jute.maxbuffer); it closes the connection on a larger one without a word.
const FrameBytesMax = 0xfffff

// BeginFrame appends room for a frame's length. Pass the offset it returns to EndFrame once the
// content stands behind it.
func BeginFrame(b []byte) (buf []byte, start int) {
	return append(b, 0, 0, 0, 0), len(b)
}

// EndFrame fills in the length of the frame that begins at start and ends with b.
func EndFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// A FrameSizeError is the error of a frame whose length is negative or beyond the limit.
type FrameSizeError struct {
	Length int32 // as received
	Max    int   // bytes
}

func (e *FrameSizeError) Error() string {
	return fmt.Sprintf("frame of %d bytes, limit is %d", e.Length, e.Max)
}

// FrameLength checks the four bytes in front of a frame against the limit.
func FrameLength(head [4]byte, frameBytesMax int) (int, error) {
	n := int32(binary.BigEndian.Uint32(head[:]))
	if n < 0 || int(n) > frameBytesMax {
		return 0, &FrameSizeError{Length: n, Max: frameBytesMax}
	}
	return int(n), nil
}

// ReadFrame reads one frame's content into buf, which it grows if it has to, and returns it. At a
// clean end between two frames the error is io.EOF, within a frame io.ErrUnexpectedEOF.
func ReadFrame(r io.Reader, buf []byte, frameBytesMax int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n, err := FrameLength(head, frameBytesMax)
	if err != nil {
		return nil, err
	}
	return ReadBody(r, buf, n)
}

// bodyStep bounds how much memory a length alone can claim: beyond it, the bytes themselves must
// have arrived.
const bodyStep = 64 << 10

// ReadBody reads the n bytes of a frame whose length has been read and checked.
func ReadBody(r io.Reader, buf []byte, n int) ([]byte, error) {
	buf = buf[:0]
	for len(buf) < n {
		step := min(n-len(buf), max(bodyStep, cap(buf)-len(buf)))
		have := len(buf)
		if cap(buf)-have < step {
			grown := make([]byte, have, min(n, max(2*cap(buf), have+step)))
			copy(grown, buf)
			buf = grown
		}
		buf = buf[:have+step]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}
