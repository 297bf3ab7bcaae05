package queue

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
		Name   string
		Number int32
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

		{Name: ""},
		{Name: "x"},
		{Name: "lock"},
		{Name: "lock-"},
		{Name: "lock-abc"},
		{Name: "lock-abcdefghij"},
		{Name: "lock-000000001"},   // nine digits
		{Name: "lock-00000000001"}, // eleven
		{Name: "lock-2147483648"},
		{Name: "lock--2147483649"},
		{Name: "lock--0000000001"}, // %010d writes -000000001
		{Name: "lock--000000000"},
		{Name: "lock-+000000001"},
		{Name: "lock-000000000x"},
		{Name: "lock-٠٠٠٠٠"}, // ten bytes, and digits to some
		{Name: "-0000000001"},
		{Name: "0000000001"},
		{Name: "-lock-0000000001"}, // no client's prefix
		{Name: "__lock__0000000001"},
		{Name: "mylock-0000000001"},
		{"_c_" + id + "-__READ__0000000001", 1, true},
		{"_c_" + id + "-__WRIT__0000000001", 1, true},
		{"_c_" + id + "-lease-0000000001", 1, true},
		{"_c_" + id + "-latch-0000000001", 1, true},
		{"0123456789abcdef__rlock__0000000001", 1, true},
		{Name: "_c_" + id + "-lock-0000000001-lock-"},
		{Name: "LOCK-0000000001"},
	} {
		number, _, ok := ParseName(c.Name)
		if number != c.Number || ok != c.ok {
			t.Errorf("parseName(%q) = %d, %v, want %d, %v", c.Name, number, ok, c.Number, c.ok)
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
		number, _, ok := ParseName(name)
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
	seen := map[ID]bool{}
	for range 1000 {
		id := newID()
		if seen[id] {
			t.Fatalf("the id %s was given out twice", id)
		}
		seen[id] = true
		name := id.Prefix(LockWord) + "0000000007"
		if n, _, ok := ParseName(name); n != 7 || !ok {
			t.Fatalf("parseName(%q) = %d, %v", name, n, ok)
		}
		if !id.Made(name) || newID().Made(name) {
			t.Fatalf("%s was not made by %s, or also by another", name, id)
		}
	}
}
