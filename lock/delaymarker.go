package lock

import (
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// A holder that may write, and whose lock has a delay, has a delay marker in the directory: a persistent znode whose name
// is that of its claim but for the end. A transaction that checks the claim makes the marker, after the claim has reached
// the head of the line and before Lock returns. The release deletes it ahead of the claim. So a marker without its claim
// stands for a hold that ended in any other way, and stays for the next contender.
//
// Readers have no marker: a delay protects what is written under the lock.
const markerWord = "-held"

// DelayMax is the largest Options.Delay.
const DelayMax = time.Hour

// marker returns the name of the delay marker of an attempt.
func (id attemptID) marker() string { return protectedPrefix + string(id) + markerWord }

// parseMarker returns the attempt that a delay marker belongs to; ok is false for any other znode.
func parseMarker(name string) (id attemptID, ok bool) {
	rest, ok := strings.CutPrefix(name, protectedPrefix)
	if !ok || len(rest) <= attemptDigits {
		return "", false
	}
	return attemptID(rest[:attemptDigits]), rest[attemptDigits:] == markerWord
}

// orphans returns the names of the delay markers in a listing whose claims are gone.
func orphans(names []string) []string {
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
		if id, ok := parseMarker(name); ok && !claimed[id.bell()] {
			left = append(left, name)
		}
	}
	return left
}

// markerData is the data of a delay marker.
type markerData struct {
	Delay int64 `json:"delay_ms"` // Options.Delay of the holder, in milliseconds
}

// encodeMarker returns the data of a delay marker.
func encodeMarker(delay time.Duration) []byte {
	b, err := json.Marshal(markerData{Delay: max(1, delay.Milliseconds())})
	if err != nil {
		panic(err) // a struct of one number
	}
	return b
}

// delayOf returns the delay that a marker's data asks for, at most DelayMax; without a valid number it returns unless.
func delayOf(data []byte, unless time.Duration) time.Duration {
	var d markerData
	if json.Unmarshal(data, &d) != nil || d.Delay <= 0 {
		return unless
	}
	return time.Duration(min(d.Delay, DelayMax.Milliseconds())) * time.Millisecond
}

// orphansKnown remembers since when markers of one directory have been known to be orphans. So when a waiter gives up,
// the next one with the same lock value continues its wait.
type orphansKnown struct {
	mu    sync.Mutex
	since map[string]time.Time // by name
}

// update notes which orphans there are, and returns for how long each has been known.
func (k *orphansKnown) update(orphans []string) []time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	since := make(map[string]time.Time, len(orphans))
	known := make([]time.Duration, len(orphans))
	for i, name := range orphans {
		at, ok := k.since[name]
		if !ok {
			at = now
		}
		since[name], known[i] = at, now.Sub(at)
	}
	k.since = since
	return known
}
