package queue

import (
	"fmt"
	"strings"
	"testing"
)

// FuzzName reads anything at all as a znode's name. What is taken for a claim ends with its number, as the
// server prints it, and only a name with an attempt's id has a release marker.
func FuzzName(f *testing.F) {
	id := ID(strings.Repeat("0123456789abcdef", 2))
	for _, w := range words {
		for _, n := range []int32{0, 42, 1<<31 - 1, -1 << 31, -1} {
			f.Add(fmt.Sprintf("%s%010d", id.Prefix(w.Word), n))
			f.Add(fmt.Sprintf("_c_822454e8-fcbd-4f3c-a5d8-cd4a8f5a3e2b%s%010d", w.Word, n))
		}
	}
	for _, name := range []string{"", "lock-", "lock-0000000042", "lock--000000042", "lock-00000000042", "x-lock-99999999999", id.ReleaseMarker()} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		number, k, ok := ParseName(name)
		if printed := fmt.Sprintf("%010d", number); ok && (k == 0 || !strings.HasSuffix(name, printed)) {
			t.Errorf("parseName(%q) = %d, kind %d", name, number, k)
		}
		of, has := IDOf(name)
		if has && (!of.Made(name) || name == of.ReleaseMarker() && ok) {
			t.Errorf("IDOf(%q) = %q", name, of)
		}
		if id.Made(name) && !strings.HasPrefix(name, protectedPrefix+string(id)) {
			t.Errorf("%q is taken for a node of %s", name, id)
		}
	})
}
