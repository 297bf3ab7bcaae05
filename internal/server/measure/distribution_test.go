package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestBucketsFollowEachOther(t *testing.T) {
	if got := bucketOf(math.MaxInt64); got != buckets-1 {
		t.Errorf("the greatest value is in bucket %d, want the last, %d", got, buckets-1)
	}
	for b := range buckets {
		first, next := lowerOf(b), lowerOf(b+1)
		if bucketOf(first) != b || bucketOf(next-1) != b {
			t.Errorf("bucket %d is [%d, %d), but those are in buckets %d and %d", b, first, next, bucketOf(first), bucketOf(next-1))
		}
		if width := next - first; first >= fine && float64(width) > float64(first)/fine {
			t.Errorf("bucket %d of [%d, %d) is wider than an eighth of what it holds", b, first, next)
		}
	}
}

// The naive twin of a distribution keeps everything.
func TestAgainstASortedList(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		var d Distribution
		values := make([]int64, 1+rnd.IntN(2000))
		scale := 1 + rnd.Int64N(1<<rnd.IntN(40))
		for i := range values {
			values[i] = rnd.Int64N(scale)
			d.Add(values[i])
		}
		slices.Sort(values)
		var sum int64
		for _, v := range values {
			sum += v
		}
		s := d.Summary(0)
		if s.Count != int64(len(values)) || s.Sum != sum || s.Min != values[0] || s.Max != values[len(values)-1] {
			t.Fatalf("seed %d: %d values, sum %d, %d to %d; got %d, %d, %d to %d",
				seed, len(values), sum, values[0], values[len(values)-1], s.Count, s.Sum, s.Min, s.Max)
		}
		for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
			want := float64(values[max(int(math.Ceil(q*float64(len(values))))-1, 0)])
			if got, ok := s.Quantile(q); !ok || math.Abs(got-want) > 0.07*want {
				t.Errorf("seed %d: quantile %v of %d values is %v, want about %v", seed, q, len(values), got, want)
			}
		}
		for exp := range 45 {
			want, _ := slices.BinarySearch(values, 1<<exp)
			if got := s.Below(exp); got != int64(want) {
				t.Errorf("seed %d: %d values below 2^%d, want %d", seed, got, exp, want)
			}
		}
	}
}

func TestNothingAndZero(t *testing.T) {
	var d Distribution
	s := d.Summary(0)
	if _, ok := s.Quantile(0.5); ok || s.Count != 0 || s.Min != 0 || s.Max != 0 || s.Mean() != 0 {
		t.Errorf("of nothing: %+v", s)
	}
	d.Add(-5)
	d.Add(4)
	s = d.Summary(0)
	if q, ok := s.Quantile(0.5); !ok || q != 0 || s.Count != 2 || s.Min != 0 || s.Max != 4 || s.Mean() != 2 {
		t.Errorf("of 0 and 4: quantile %v, %v, %d values from %d to %d, mean %v", q, ok, s.Count, s.Min, s.Max, s.Mean())
	}
	d.Reset()
	s = d.Summary(0)
	if s.Count != 0 || s.Sum != 0 || s.Max != 0 {
		t.Errorf("after a reset: %d values", s.Count)
	}
	d.Add(7)
	s = d.Summary(0)
	if s.Min != 7 {
		t.Errorf("the minimum after a reset is %d, want 7", s.Min)
	}
}

// Quantiles are those of recent values, sums those of all.
func TestQuantilesForget(t *testing.T) {
	var d Distribution
	median := func(now time.Duration) float64 {
		s := d.Summary(now)
		q, ok := s.Quantile(0.5)
		if !ok {
			return -1
		}
		return q
	}
	for range 100 {
		d.Add(1)
	}
	for _, step := range []struct {
		at   time.Duration
		add  int64
		want float64
		why  string
	}{
		{10 * time.Second, 0, 1, "all are recent"},
		{RecentMin, 0, 1, "so they are still, though a new stretch begins"},
		{RecentMin + 30*time.Second, 5, 1, "one 5 among a hundred"},
		{2 * RecentMin, 5, 5, "the hundred are from before the stretch that began a minute ago"},
		{2*RecentMin + 59*time.Second, 0, 5, "the fives are recent"},
		{3*RecentMin + time.Second, 0, -1, "nothing came since the last stretch began"},
	} {
		if step.add != 0 {
			d.Add(step.add)
		}
		if got := median(step.at); got != step.want {
			t.Errorf("at %v: median %v, want %v: %s", step.at, got, step.want, step.why)
		}
	}
	if s := d.Summary(4 * RecentMin); s.Count != 102 {
		t.Errorf("%d values, want all 102", s.Count)
	}
	d.Reset()
	d.Add(1) // there were many before
	if got := median(4*RecentMin + time.Second); got != 1 {
		t.Errorf("median after a reset: %v, want 1", got)
	}
}

func TestManyAddAtOnce(t *testing.T) {
	var d Distribution
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for v := range int64(1000) {
				d.Add(v + int64(i)*1000)
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			d.Summary(0)
		}
	})
	wg.Wait()
	if s := d.Summary(0); s.Count != 4000 || s.Sum != 3999*4000/2 || s.Min != 0 || s.Max != 3999 {
		t.Errorf("%d values, sum %d, %d to %d", s.Count, s.Sum, s.Min, s.Max)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	var d Distribution
	if n := testing.AllocsPerRun(100, func() { d.Add(12345) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	var d Distribution
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for v := int64(50_000); pb.Next(); v += 17 {
			d.Add(v % 1_000_000)
		}
	})
}
