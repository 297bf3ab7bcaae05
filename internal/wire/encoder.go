package wire

import "encoding/binary"

// AppendBool appends one byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt32 appends a big-endian int32.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends a big-endian int64.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBuffer appends a byte buffer; nil goes out as null, an empty one as empty.
func AppendBuffer(b, v []byte) []byte {
	if v == nil {
		return AppendInt32(b, -1)
	}
	return append(AppendInt32(b, int32(len(v))), v...)
}

// AppendString appends a string.
func AppendString(b []byte, s string) []byte {
	return append(AppendInt32(b, int32(len(s))), s...)
}

// AppendStrings appends a vector of strings; nil goes out as empty, because servers refuse null
// where they expect a list.
func AppendStrings(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}
