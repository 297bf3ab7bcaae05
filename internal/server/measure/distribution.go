// Package measure sums up what happens far too often to be written down one by one: how long
// answers and syncs take, how large batches are.
//
// A Distribution is added to by any number of goroutines with a few atomic operations, no lock and
// no allocation. A reader sees a value that is being added wholly or in part, and
// nothing that was not added: sums may be ahead of counts by what is being added at that moment.
//
// The package is pure: the time is an argument.
package measure

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets are as wide as an eighth of the power of two they lie in, so a value that a bucket stands
// for is wrong by less than 7 %. Below the first power of two that has eight integers, each value
// has a bucket of its own.
const (
	fineBits = 3
	fine     = 1 << fineBits
	buckets  = (63-fineBits)*fine + fine
)

// bucketOf returns the bucket of a value that is not negative.
func bucketOf(v int64) int {
	if v < fine {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - 1 - fineBits
	return shift*fine + int(v>>shift)
}

// lowerOf returns the least value of a bucket: that of the next one is where it ends.
func lowerOf(bucket int) int64 {
	if bucket < 2*fine {
		return int64(bucket)
	}
	if bucket >= buckets {
		return math.MaxInt64
	}
	shift := bucket/fine - 1
	return int64(fine+bucket%fine) << shift
}

// A Distribution sums up values that are not negative. The zero value is empty and ready for use.
type Distribution struct {
	sum, max atomic.Int64
	least    atomic.Int64 // plus one; 0 is none yet
	counts   [buckets]atomic.Int64

	window window
}

// Add adds a value; one below zero, as from a clock that was set back, counts as zero.
func (d *Distribution) Add(v int64) {
	v = max(v, 0)
	d.counts[bucketOf(v)].Add(1)
	d.sum.Add(v)
	for old := d.max.Load(); v > old && !d.max.CompareAndSwap(old, v); old = d.max.Load() {
	}
	for old := d.least.Load(); (old == 0 || v+1 < old) && !d.least.CompareAndSwap(old, v+1); old = d.least.Load() {
	}
}

// Reset forgets everything. What is added meanwhile may be forgotten in part.
func (d *Distribution) Reset() {
	for i := range d.counts {
		d.counts[i].Store(0)
	}
	d.sum.Store(0)
	d.max.Store(0)
	d.least.Store(0)
	d.window.reset()
}

func (d *Distribution) load() (t tally) {
	for i := range d.counts {
		t[i] = d.counts[i].Load()
	}
	return t
}

// Summary sums up all values, and the recent ones: those of at least the last RecentMin, if Summary
// was called before that. now may be on any clock that does not run backwards.
func (d *Distribution) Summary(now time.Duration) Summary {
	all := d.load()
	return Summary{
		Count: all.count(), Sum: d.sum.Load(), Min: max(d.least.Load()-1, 0), Max: d.max.Load(),
		all: all, recent: d.window.recent(all, now),
	}
}

// A Summary is a Distribution at one moment. Min, Max and Sum are exact.
type Summary struct {
	Count, Sum, Min, Max int64

	all, recent tally
}

// Mean returns the mean of all values; of none, zero.
func (s *Summary) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return float64(s.Sum) / float64(s.Count)
}

// Quantile returns the value that a share q of the recent values does not exceed, to within 7 %. If
// there are none, ok is false.
func (s *Summary) Quantile(q float64) (v float64, ok bool) {
	rank := int64(math.Ceil(q * float64(s.recent.count())))
	for i, n := range &s.recent {
		rank -= n
		if n > 0 && rank <= 0 {
			middle := float64(lowerOf(i)) + float64(lowerOf(i+1)-lowerOf(i)-1)/2
			return min(max(middle, float64(s.Min)), float64(s.Max)), true
		}
	}
	return 0, false
}

// Below returns how many of all values are less than 2 to the power of exp. It is exact.
func (s *Summary) Below(exp int) (n int64) {
	for _, c := range s.all[:bucketOf(1<<exp)] {
		n += c
	}
	return n
}
