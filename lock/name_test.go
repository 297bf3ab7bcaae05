package lock

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestF12_ParseName(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name   string
		number int32
		ok     bool
	}{
		{"_c_" + id + "-lock-0000000042", 42, true},
		{"_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000042", 42, true}, // Curator writes its ids with dashes
		{id + "__lock__0000000042", 42, true},
		{"lock-0000000042", 42, true},
		{"_c_" + id + "-lock-2147483647", math.MaxInt32, true},
		{"_c_" + id + "-lock--2147483648", math.MinInt32, true},
		{"_c_" + id + "-lock--000000001", -1, true},
		{"_c_" + id + "-lock--1234567890", -1234567890, true},
		{"_c_" + id + "-lock-__lock__0000000007", 7, true},

		{name: ""},
		{name: "x"},
		{name: "lock"},
		{name: "lock-"},
		{name: "lock-abc"},
		{name: "lock-abcdefghij"},
		{name: "lock-000000001"},   // nine digits
		{name: "lock-00000000001"}, // eleven
		{name: "lock-2147483648"},
		{name: "lock--2147483649"},
		{name: "lock--0000000001"}, // %010d writes -000000001
		{name: "lock--000000000"},
		{name: "lock-+000000001"},
		{name: "lock-000000000x"},
		{name: "lock-٠٠٠٠٠"}, // ten bytes, and digits to some
		{name: "-0000000001"},
		{name: "0000000001"},
		{name: "-lock-0000000001"}, // nobody's prefix
		{name: "__lock__0000000001"},
		{name: "mylock-0000000001"},
		{"_c_" + id + "-__READ__0000000001", 1, true},
		{"_c_" + id + "-__WRIT__0000000001", 1, true},
		{"_c_" + id + "-lease-0000000001", 1, true},
		{"_c_" + id + "-latch-0000000001", 1, true},
		{"0123456789abcdef__rlock__0000000001", 1, true},
		{name: "_c_" + id + "-lock-0000000001-lock-"},
		{name: "LOCK-0000000001"},
	} {
		number, _, ok := parseName(c.name)
		if number != c.number || ok != c.ok {
			t.Errorf("parseName(%q) = %d, %v, want %d, %v", c.name, number, ok, c.number, c.ok)
		}
	}
}

// naiveParseName tries every place where the number could begin, and believes only what the server would
// have written.
func naiveParseName(name string) (int32, bool) {
	for i := range len(name) + 1 {
		n, err := strconv.ParseInt(name[i:], 10, 32)
		if err != nil || fmt.Sprintf("%010d", n) != name[i:] {
			continue
		}
		for _, word := range []string{"-lock-", "__lock__"} {
			if front, ok := strings.CutSuffix(name[:i], word); ok && front != "" {
				return int32(n), true
			}
		}
		if name[:i] == "lock-" {
			return int32(n), true
		}
	}
	return 0, false
}

func TestF12_ParseNameTwin(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"lock-", "-lock-", "__lock__", "-", "_", "lock", "_c_", "ab", "0", "1", "000000", "0000000000", "2147483647", "-2147483648", "4294967296"}
	contenders := 0
	for range 200_000 {
		var b strings.Builder
		for range r.IntN(5) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "%010d", int32(r.Uint32()))
		}
		name := b.String()
		number, _, ok := parseName(name)
		if n, want := naiveParseName(name); n != number || ok != want {
			t.Fatalf("seed %d: parseName(%q) = %d, %v, want %d, %v", seed, name, number, ok, n, want)
		}
		if ok {
			contenders++
		}
	}
	if contenders < 1000 {
		t.Errorf("seed %d: only %d of the names were contenders'", seed, contenders)
	}
}

// The name of one attempt is not taken for another's, whatever the server appends.
func TestAttemptIDs(t *testing.T) {
	seen := map[attemptID]bool{}
	for range 1000 {
		id := newAttemptID()
		if seen[id] {
			t.Fatalf("the id %s was given out twice", id)
		}
		seen[id] = true
		name := id.prefix(lockWord) + "0000000007"
		if n, _, ok := parseName(name); n != 7 || !ok {
			t.Fatalf("parseName(%q) = %d, %v", name, n, ok)
		}
		if !id.made(name) || newAttemptID().made(name) {
			t.Fatalf("%s was not made by %s, or also by another", name, id)
		}
	}
}
