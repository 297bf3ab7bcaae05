package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// numbered makes the name of a contender with this number, of a kind and with a prefix that tell nothing
// about its place.
func numbered(r *rand.Rand, n int32) string {
	switch r.IntN(3) {
	case 0:
		return fmt.Sprintf("%032x__lock__%010d", r.Uint64(), n)
	case 1:
		return fmt.Sprintf("_c_%08x-%04x-lock-%010d", r.Uint32(), r.Uint32(), n)
	}
	return fmt.Sprintf("%s%010d", newID().Prefix(LockWord), n)
}

// The twin keeps a counter that never wraps and sorts by it; the queue sees only the low 32 bits.
func TestF11_F13_OrderTwin(t *testing.T) {
	starts := []int64{0, math.MaxInt32 - 5, math.MaxUint32 - 5, 1 << 31, 1 << 32, -3}
	for range 2000 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		counter := starts[r.IntN(len(starts))] + r.Int64N(10)
		var want []string
		for range r.IntN(12) {
			want = append(want, numbered(r, int32(counter)))
			step := int64(1)
			if r.IntN(4) == 0 {
				step += r.Int64N(1 << 27) // twelve of them stay below 2^31
			}
			counter += step
		}
		names := slices.Clone(want)
		for _, stray := range []string{"x", "lock-", "lock-abc", "-0000000001", "other-0000000000"} {
			if r.IntN(2) == 0 {
				names = append(names, stray)
			}
		}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		q := Parse(names, MutexRules.Heeds)
		got := q.Names()
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: parseQueue(%q) is in the order %q, want %q", seed, names, got, want)
		}
		for i := range q.Claims {
			if q.OrderUnknown(i) {
				t.Fatalf("seed %d: %s is said to have another claim's number: %q", seed, q.Claims[i].Name, got)
			}
		}
	}
}

func TestBefore(t *testing.T) {
	for _, c := range []struct {
		a, b int32
		want bool
	}{
		{0, 1, true}, {1, 0, false}, {0, 0, false},
		{-1, 0, true}, {0, -1, false}, {-2, -1, true},
		{math.MaxInt32, math.MinInt32, true}, {math.MinInt32, math.MaxInt32, false},
		{math.MaxInt32 - 7, math.MinInt32 + 7, true},
		{math.MaxInt32, math.MaxInt32, false},
	} {
		if got := Before(c.a, c.b); got != c.want {
			t.Errorf("before(%d, %d) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestMine(t *testing.T) {
	a, b := newID(), newID()
	q := Parse([]string{b.Prefix(LockWord) + "0000000002", a.Prefix(LockWord) + "0000000009", a.Prefix(LockWord) + "0000000001", a.Prefix(LockWord) + "x"}, MutexRules.Heeds)
	if got := q.PlacesOf(a); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("places of the first attempt: %v, want 0 and 2", got)
	}
	if got := q.PlacesOf(b); !slices.Equal(got, []int{1}) {
		t.Errorf("places of the second attempt: %v, want 1", got)
	}
	if got := q.PlacesOf(newID()); len(got) != 0 {
		t.Errorf("places of an attempt that made nothing: %v", got)
	}
}

// A model of a directory: contenders join, look, leave and look again in any order, with a counter that
// wraps (older servers) or stops (3.8): what is created in one go there goes on beyond the end, what comes
// later has the last number again. Each look decides as an attempt does. No two contenders may hold the
// lock at once, and none may overtake.
func TestF13_OneHolderWhateverTheCounter(t *testing.T) {
	exhausted := 0
	for range 3000 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		stops := r.IntN(2) == 0
		next := int64(math.MaxInt32 - r.IntN(6))
		var names []string // in the order of their creation
		holder := ""
		leave := func(name string) {
			names = slices.DeleteFunc(names, func(n string) bool { return n == name })
			if name == holder {
				holder = ""
			}
		}
		look := func(name string) {
			q := Parse(names, MutexRules.Heeds)
			q.Spent = stops && next == math.MaxInt32
			place := slices.IndexFunc(q.Claims, func(c Claim) bool { return c.Name == name })
			switch {
			case q.OrderUnknown(place):
				exhausted++
				leave(name) // with ErrCounterExhausted
			case place > 0:
			case holder != "" && holder != name:
				t.Fatalf("seed %d: %s and %s both hold the lock: %q", seed, holder, name, names)
			case names[0] != name:
				t.Fatalf("seed %d: %s overtook: %q", seed, name, names)
			default:
				holder = name
			}
		}
		for range 40 {
			switch n := len(names); {
			case n == 0 || n < 8 && r.IntN(2) == 0:
				var made []string
				for range 1 + r.IntN(3) {
					made = append(made, numbered(r, int32(next)))
					next++
				}
				if stops {
					next = min(next, math.MaxInt32)
				}
				names = append(names, made...)
				for _, name := range made {
					look(name)
				}
			default:
				i := r.IntN(n)
				if name := names[i]; name == holder || r.IntN(3) == 0 {
					leave(name)
				} else {
					look(name)
				}
			}
		}
	}
	if exhausted == 0 {
		t.Error("no counter came to its end")
	}
}

func TestExhausting(t *testing.T) {
	for n, want := range map[int32]bool{0: false, math.MinInt32: false, -1: false, math.MaxInt32 - nearEnd: false, math.MaxInt32 - nearEnd + 1: true, math.MaxInt32: true} {
		if got := Exhausting(n); got != want {
			t.Errorf("exhausting(%d) = %v, want %v", n, got, want)
		}
	}
}

func BenchmarkParseQueue(b *testing.B) {
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("%s%010d", newID().Prefix(LockWord), i)
			}
			rand.Shuffle(n, func(i, j int) { names[i], names[j] = names[j], names[i] })
			b.ReportAllocs()
			for b.Loop() {
				Parse(names, MutexRules.Heeds)
			}
		})
	}
}
