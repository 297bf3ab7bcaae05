package discovery

import (
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// RoundRobin returns the instances of a service one after the other. Disabled ones are left out, and those that have
// failed lately (Failed), unless all have. Without instances the error is a *NoInstanceError.
func (d *Directory) RoundRobin(name string) (Instance, error) {
	l := d.listing()
	return d.pick(l, name, func(all []Instance) int { return l.turn(name, all) })
}

// Random returns one instance of a service by chance; see RoundRobin for which.
func (d *Directory) Random(name string) (Instance, error) {
	return d.pick(d.listing(), name, func(all []Instance) int { return rand.IntN(len(all)) })
}

// Sticky returns the same instance for the same key, as long as that one is there: when another instance comes or goes,
// few keys move (rendezvous hashing). See RoundRobin for which instances are left out.
func (d *Directory) Sticky(name, key string) (Instance, error) {
	l, sum := d.listing(), hash(key)
	return d.pick(l, name, func(all []Instance) int {
		hashes := l.hashes[name]
		if len(all) != len(hashes) { // some have failed lately
			hashes = hashIDs(all)
		}
		best, at := uint64(0), 0
		for n, h := range hashes {
			if score := mix(h ^ sum); n == 0 || score > best {
				best, at = score, n
			}
		}
		return at
	})
}

// hashIDs returns a hash of each instance's id.
func hashIDs(all []Instance) []uint64 {
	hashes := make([]uint64, len(all))
	for n, i := range all {
		hashes[n] = mix(hash(i.ID)) // mixed twice in all, so that ids and keys that are alike do not cancel each other
	}
	return hashes
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// mix spreads the bits of a hash, whose high ones hardly depend on the end of what was hashed.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// pick chooses among the instances that are usable.
func (d *Directory) pick(l *listing, name string, choose func([]Instance) int) (Instance, error) {
	all, _ := d.failures.split(l.usable[name])
	if len(all) == 0 {
		return Instance{}, d.none(l, name)
	}
	return all[choose(all)], nil
}

// none returns the error for a service without instances.
func (d *Directory) none(l *listing, name string) error {
	e := &NoInstanceError{Base: d.base, Name: name}
	for _, m := range l.malformed {
		if service, _ := d.instanceOf(m.Path); service == name {
			e.Malformed++
		}
	}
	return e
}

// inTurn returns the usable instances of a service, each once: first those that have not failed lately. Each is the one
// whose turn it is in the round robin, or the next one that has not been returned.
func (d *Directory) inTurn(l *listing, name string) iter.Seq[Instance] {
	return func(yield func(Instance) bool) {
		good, bad := d.failures.split(l.usable[name])
		for _, some := range [][]Instance{good, bad} {
			returned := make([]bool, len(some))
			for range some {
				at := l.turn(name, some)
				for returned[at] {
					at = (at + 1) % len(some)
				}
				returned[at] = true
				if !yield(some[at]) {
					return
				}
			}
		}
	}
}

// turn returns which of some instances of a service is the next one.
func (l *listing) turn(name string, some []Instance) int {
	return int((l.turns[name].Add(1) - 1) % uint64(len(some)))
}

// Failed notes that an instance did not answer. After Options.FailuresMax failures in a row, it is left out for
// Options.FailureTime.
func (d *Directory) Failed(i Instance) { d.failures.add(i) }

// Worked notes that an instance has answered, and forgets its failures.
func (d *Directory) Worked(i Instance) { d.failures.forget(i) }

// failures remembers which instances have failed lately.
type failures struct {
	max  int
	time time.Duration

	some atomic.Int64 // how many there are, so that nothing is locked while there are none
	mu   sync.Mutex
	of   map[instanceKey]failure
}

// failuresKeysMax is how many instances are remembered; beyond it, those that are over are forgotten.
const failuresKeysMax = 1024

type instanceKey struct{ name, id string }

type failure struct {
	count int
	last  time.Time
}

func newFailures(count int, d time.Duration) *failures {
	return &failures{max: count, time: d, of: map[instanceKey]failure{}}
}

func (f *failures) add(i Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, now := instanceKey{i.Name, i.ID}, time.Now()
	known := f.of[key]
	if now.Sub(known.last) > f.time {
		known.count = 0
	}
	if len(f.of) >= failuresKeysMax {
		for key, was := range f.of {
			if now.Sub(was.last) > f.time || len(f.of) >= 2*failuresKeysMax {
				delete(f.of, key)
			}
		}
	}
	f.of[key] = failure{known.count + 1, now}
	f.some.Store(int64(len(f.of)))
}

func (f *failures) forget(i Instance) {
	if f.some.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, instanceKey{i.Name, i.ID})
	f.some.Store(int64(len(f.of)))
}

// split returns the instances that have not failed lately, and those that have; if all have, they count as good.
func (f *failures) split(all []Instance) (good, bad []Instance) {
	if f.some.Load() == 0 {
		return all, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, i := range all {
		if was := f.of[instanceKey{i.Name, i.ID}]; was.count < f.max || now.Sub(was.last) > f.time {
			good = append(good, i)
		} else {
			bad = append(bad, i)
		}
	}
	if good == nil {
		return all, nil
	}
	return good, bad
}
