package measure

import (
	"sync"
	"time"
)

// RecentMin is how far back, at least, the values reach that quantiles are taken of. If they are
// asked for regularly, values of more than twice that age do not count any more.
const RecentMin = time.Minute

// A tally is how many values each bucket has.
type tally [buckets]int64

func (t *tally) count() (n int64) {
	for _, c := range t {
		n += c
	}
	return n
}

// A window remembers what a distribution was like some time ago, so that what has come since can
// be reported. It costs an addition nothing; a question moves it.
type window struct {
	mu           sync.Mutex
	older, newer tally         // guarded by mu, as are the times: newer was taken after older
	taken        time.Duration // when newer was taken
}

// recent returns what all has more than the distribution had at least RecentMin ago.
func (w *window) recent(all tally, now time.Duration) tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now-w.taken >= RecentMin {
		w.older, w.newer, w.taken = w.newer, all, now
	}
	for i, n := range &w.older {
		all[i] = max(all[i]-n, 0)
	}
	return all
}

func (w *window) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.older, w.newer = tally{}, tally{}
}
