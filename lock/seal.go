package lock

import (
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// A holder whose lock has a delay leaves a seal in the directory while it holds: a persistent znode whose
// name is that of its claim but for the end. It is made in a transaction that checks the claim, once the lock
// is ours and before anybody is told so, and deleted ahead of the claim when the hold is released. A seal
// whose claim is gone is that of a holder that ended in any other way, and stays for whoever comes next.
const (
	sealWord       = "-held"
	sharedSealWord = "-held-shared"
)

// DelayMax is the largest Options.Delay.
const DelayMax = time.Hour

// A seal is what the name of such a znode tells.
type seal struct {
	id     attemptID // whose it is
	shared bool      // it held the lock together with others
}

// sealName returns the name of the seal of an attempt, for a claim of that kind.
func (id attemptID) sealName(k kind) string {
	if k == shared {
		return protectedPrefix + string(id) + sharedSealWord
	}
	return protectedPrefix + string(id) + sealWord
}

func parseSeal(name string) (s seal, ok bool) {
	rest, ok := strings.CutPrefix(name, protectedPrefix)
	if !ok || len(rest) <= attemptDigits {
		return seal{}, false
	}
	word := rest[attemptDigits:]
	return seal{attemptID(rest[:attemptDigits]), word == sharedSealWord}, word == sealWord || word == sharedSealWord
}

// orphans returns the names of the seals in a listing whose claims are gone, without those of readers if k is shared:
// readers need not wait for readers.
func orphans(names []string, k kind) []string {
	return orphansOf(names, func(s seal) bool { return !s.shared || k != shared })
}

// sharedOrphans returns the names of the seals in a listing that readers have left.
func sharedOrphans(names []string) []string {
	return orphansOf(names, func(s seal) bool { return s.shared })
}

// orphansOf returns the names of the seals in a listing whose claims are gone, those for which which is true.
func orphansOf(names []string, which func(seal) bool) []string {
	claimed := map[string]bool{} // by the bell that the claim would ring
	for _, name := range names {
		if _, _, ok := parseName(name); ok {
			if bell, ours := bellOf(name); ours {
				claimed[bell] = true
			}
		}
	}
	var left []string
	for _, name := range names {
		if s, ok := parseSeal(name); ok && !claimed[s.id.bell()] && which(s) {
			left = append(left, name)
		}
	}
	return left
}

// A sealData is the data of a seal.
type sealData struct {
	Delay int64 `json:"delay_ms"` // Options.Delay of the holder, in milliseconds
}

// encodeSeal returns the data of a seal.
func encodeSeal(delay time.Duration) []byte {
	b, err := json.Marshal(sealData{Delay: max(1, delay.Milliseconds())})
	if err != nil {
		panic(err) // a struct of one number
	}
	return b
}

// delayOf returns the delay that a seal's data asks for, DelayMax at most; or the delay unless, if it asks for none.
func delayOf(data []byte, unless time.Duration) time.Duration {
	var d sealData
	if json.Unmarshal(data, &d) != nil || d.Delay <= 0 {
		return unless
	}
	return time.Duration(min(d.Delay, DelayMax.Milliseconds())) * time.Millisecond
}

// A noticed remembers since when seals of one directory have been known to be orphans. So when a waiter gives up, the
// next one with the same entrance need not begin anew.
type noticed struct {
	mu    sync.Mutex
	since map[string]time.Time // by name
}

// update notes which orphans there are, and returns for how long each has been known.
func (n *noticed) update(orphans []string) []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	since := make(map[string]time.Time, len(orphans))
	known := make([]time.Duration, len(orphans))
	for i, name := range orphans {
		at, ok := n.since[name]
		if !ok {
			at = now
		}
		since[name], known[i] = at, now.Sub(at)
	}
	n.since = since
	return known
}
