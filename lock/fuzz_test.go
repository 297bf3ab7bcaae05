package lock

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// FuzzName reads anything at all as a znode's name. What is taken for a claim ends with its number, as the
// server prints it, and only a name with an attempt's id has a bell.
func FuzzName(f *testing.F) {
	id := attemptID(strings.Repeat("0123456789abcdef", 2))
	for _, w := range words {
		for _, n := range []int32{0, 42, 1<<31 - 1, -1 << 31, -1} {
			f.Add(fmt.Sprintf("%s%010d", id.prefix(w.word), n))
			f.Add(fmt.Sprintf("_c_822454e8-fcbd-4f3c-a5d8-cd4a8f5a3e2b%s%010d", w.word, n))
		}
	}
	for _, name := range []string{"", "lock-", "lock-0000000042", "lock--000000042", "lock-00000000042", "x-lock-99999999999", id.bell()} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		number, k, ok := parseName(name)
		if printed := fmt.Sprintf("%010d", number); ok && (k == 0 || !strings.HasSuffix(name, printed)) {
			t.Errorf("parseName(%q) = %d, kind %d", name, number, k)
		}
		bell, has := bellOf(name)
		if has && (!strings.HasPrefix(bell, name[:len(protectedPrefix)+attemptDigits]) || name == bell && ok) {
			t.Errorf("bellOf(%q) = %q", name, bell)
		}
		if id.made(name) && !strings.HasPrefix(name, protectedPrefix+string(id)) {
			t.Errorf("%q is taken for a node of %s", name, id)
		}
	})
}

// FuzzNodeData reads anything at all as a contender's data. What was understood stays the same when it is
// written and read again.
func FuzzNodeData(f *testing.F) {
	e := newEntrance(nil, "/l", Options{Label: "nightly"}, &mutexRecipe)
	for _, data := range [][]byte{nil, e.nodeData(record{}), []byte("127.0.0.1"), []byte(revokeMessage),
		[]byte(`{"host":"a","pid":-1,"since":"2026-01-02T03:04:05.678+14:00","under":["/l/_c_0-lock-"],"yields":true}`),
		[]byte(`{"since":"9999-12-31T23:59:59-14:00"}`), []byte(`{"pid":1e3}`), []byte(`{"under":[null]}`)} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := parseRecord(data)
		once := r.encode()
		if twice := parseRecord(once).encode(); !bytes.Equal(once, twice) {
			t.Errorf("%q is read as %+v, written as %s, and then as %s", data, r, once, twice)
		}
		if o, ok := parseOwner(data); ok && r.Owner != (Owner{}) && fmt.Sprint(o) != fmt.Sprint(r.Owner) {
			t.Errorf("%q: the owner is %+v and %+v", data, o, r.Owner)
		}
	})
}
