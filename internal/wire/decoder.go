package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// ErrTruncated is the error of a record that ends before its last field.
var ErrTruncated = errors.New("record ends early")

var errNullString = errors.New("null string where one is required")

// A Decoder reads jute fields from a frame. The first error sticks: later reads return zero
// values, so that a caller reads a whole record and looks at Err once.
type Decoder struct {
	buf []byte
	err error
}

// NewDecoder returns a decoder of b. What it returns as buffers points into b.
func NewDecoder(b []byte) *Decoder { return &Decoder{buf: b} }

// Reset makes d decode b from the start, without an error.
func (d *Decoder) Reset(b []byte) { d.buf, d.err = b, nil }

// Err returns the first error met.
func (d *Decoder) Err() error { return d.err }

// Rest returns the bytes not yet read.
func (d *Decoder) Rest() []byte { return d.buf }

// Fail makes err the decoder's error, unless it has one already.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
		d.buf = nil
	}
}

// take is the only place that uses a length from outside, and it checks it first.
func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.buf) {
		d.Fail(ErrTruncated)
		return nil
	}
	b := d.buf[:n:n]
	d.buf = d.buf[n:]
	return b
}

// Bool reads one byte; any but 0 is true.
func (d *Decoder) Bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// Int32 reads a big-endian int32.
func (d *Decoder) Int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads a big-endian int64.
func (d *Decoder) Int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Buffer reads a byte buffer; null is nil, empty is not. The result points into the frame:
// a caller that keeps it beyond the frame's life copies it.
func (d *Decoder) Buffer() []byte {
	switch n := d.Int32(); {
	case d.err != nil || n == -1:
		return nil
	case n < -1:
		d.Fail(fmt.Errorf("buffer of negative length %d", n))
		return nil
	default:
		return d.take(int(n))
	}
}

// String reads a string that must not be null.
func (d *Decoder) String() string {
	s, ok := d.NullString()
	if !ok {
		d.Fail(errNullString)
	}
	return s
}

// NullString reads a string that may be null, in which case ok is false.
func (d *Decoder) NullString() (s string, ok bool) {
	s, ok = d.NullStringView()
	return strings.Clone(s), ok
}

// StringView is String without a copy: the result lies in the frame, and is good for as long as
// nothing writes to that. A caller that keeps it longer clones it.
func (d *Decoder) StringView() string {
	s, ok := d.NullStringView()
	if !ok {
		d.Fail(errNullString)
	}
	return s
}

// NullStringView is NullString without a copy; see StringView.
func (d *Decoder) NullStringView() (s string, ok bool) {
	switch n := d.Int32(); {
	case d.err != nil || n == -1:
		return "", false
	case n < -1:
		d.Fail(fmt.Errorf("string of negative length %d", n))
		return "", false
	default:
		b := d.take(int(n))
		return unsafe.String(unsafe.SliceData(b), len(b)), d.err == nil
	}
}

// nullWord reads a string that may be null, in which case ok is false. The strings that are frequent in access control
// lists take no memory.
func (d *Decoder) nullWord() (word string, ok bool) {
	s, ok := d.NullStringView()
	switch s {
	case "world":
		return "world", ok
	case "anyone":
		return "anyone", ok
	case "auth":
		return "auth", ok
	case "digest":
		return "digest", ok
	case "ip":
		return "ip", ok
	}
	return strings.Clone(s), ok
}

// Count reads the count of a vector whose elements take at least elemMin bytes each, so that no
// count can make a caller allocate more than the frame could hold. Null is −1; as in ZooKeeper's
// own reader, any other negative count reads as empty.
func (d *Decoder) Count(elemMin int) int {
	n := int(d.Int32())
	switch {
	case d.err != nil || n == -1:
		return -1
	case n < 0:
		return 0
	case n > len(d.buf)/max(elemMin, 1):
		d.Fail(fmt.Errorf("vector of %d elements in %d bytes", n, len(d.buf)))
		return -1
	}
	return n
}

// Strings reads a vector of strings; null is nil. They lie in one piece of memory: a caller that keeps a few of many for
// long clones them.
func (d *Decoder) Strings() []string {
	n := d.Count(4)
	if n < 0 {
		return nil
	}
	all := d.buf
	for range n {
		d.StringView()
	}
	if d.err != nil {
		return nil
	}
	kept := Decoder{buf: bytes.Clone(all[:len(all)-len(d.buf)])}
	out := make([]string, n)
	for i := range out {
		out[i] = kept.StringView()
	}
	return out
}
