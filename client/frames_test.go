package client

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

func frameOf(n int, fill byte) []byte {
	b, start := wire.BeginFrame(nil)
	return wire.EndFrame(append(b, bytes.Repeat([]byte{fill}, n)...), start)
}

// However the bytes come, the messages are the same ones; of what is too long, the header.
func TestFrames(t *testing.T) {
	const most = 100 << 10
	lengths := []int{0, 1, 16, 20, framesRead - 4, framesRead, framesKept, 17, most, most + 1, 16, 3 * most, 1}
	var stream []byte
	for i, n := range lengths {
		stream = append(stream, frameOf(n, byte(i))...)
	}
	for name, r := range map[string]io.Reader{
		"at once":           bytes.NewReader(stream),
		"byte by byte":      iotest.OneByteReader(bytes.NewReader(stream)),
		"half of it":        iotest.HalfReader(bytes.NewReader(stream)),
		"end with the rest": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		in := frameReader{from: r, patience: time.Minute, bytesMax: most}
		var got []int
		for {
			m, skipped, err := in.next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if m != nil {
				i := len(got)
				if n := len(m); skipped != nil && n != replyHeaderBytes || slices.ContainsFunc(m, func(b byte) bool { return b != byte(i) }) {
					t.Fatalf("%s: message %d: %d bytes, some of them not its own", name, i, n)
				}
				if n := len(m); skipped != nil {
					got = append(got, int(skipped.(*SizeError).Bytes))
				} else {
					got = append(got, n)
				}
				continue
			}
			if err := in.fill(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !slices.Equal(got, lengths) {
			t.Errorf("%s: messages of %v bytes, want %v", name, got, lengths)
		}
		if len(in.buf) > framesKept+framesRead {
			t.Errorf("%s: a buffer of %d bytes is kept", name, len(in.buf))
		}
	}
}

// A message that breaks off is not a clean end.
func TestFramesOfAMessageThatBreaksOff(t *testing.T) {
	const most = 100
	for _, n := range []int{50, 200} {
		whole := frameOf(n, 1)
		for cut := 1; cut < len(whole); cut++ {
			in := frameReader{from: bytes.NewReader(whole[:cut]), patience: time.Minute, bytesMax: most}
			var err error
			for err == nil {
				if m, _, e := in.next(); m != nil || e != nil {
					t.Fatalf("%d of %d bytes: message %v, error %v", cut, len(whole), m != nil, e)
				}
				err = in.fill()
			}
			if err != io.ErrUnexpectedEOF {
				t.Errorf("%d of %d bytes: %v", cut, len(whole), err)
			}
		}
	}
}

// A length alone claims no memory.
func TestFramesBelievesBytes(t *testing.T) {
	in := frameReader{from: io.MultiReader(bytes.NewReader([]byte{0x3f, 0, 0, 0}), bytes.NewReader(make([]byte, 40<<10))), patience: time.Minute, bytesMax: 1 << 30}
	for in.fill() == nil {
		if m, _, err := in.next(); m != nil || err != nil {
			t.Fatal(m != nil, err)
		}
		if len(in.buf) > 2*(in.w-in.r)+framesRead {
			t.Fatalf("%d bytes of memory for %d that have come", len(in.buf), in.w-in.r)
		}
	}
}

func TestFramesRefusesALengthBelowZero(t *testing.T) {
	in := frameReader{from: bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff}), patience: time.Minute, bytesMax: 100}
	if err := in.fill(); err != nil {
		t.Fatal(err)
	}
	var size *wire.FrameSizeError
	if m, _, err := in.next(); m != nil || !errors.As(err, &size) {
		t.Errorf("message %v, error %v", m != nil, err)
	}
}
