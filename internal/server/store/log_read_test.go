package store

import (
	"bytes"
	"testing"
)

// A server that ends a log cuts off the zeros that it had asked the file system for. A reader that works beside it, and that knows
// the size of before, must not take what it read elsewhere for the end of the log.
func TestTheEndOfALogThatIsCutMeanwhile(t *testing.T) {
	data := append(bytes.Repeat([]byte{1}, readBufferBytes), make([]byte, readBufferBytes/2)...)
	for _, kept := range []int{readBufferBytes, readBufferBytes + 1000} {
		end, err := lastNonZero(bytes.NewReader(data[:kept]), 0, int64(len(data)))
		if err != nil || end != readBufferBytes {
			t.Errorf("cut to %d bytes: the last byte that is not zero is before %d, want %d (%v)", kept, end, readBufferBytes, err)
		}
	}
}
