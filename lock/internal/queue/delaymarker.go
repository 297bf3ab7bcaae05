package queue

import (
	"encoding/json"
	"time"
)

// A holder that may write, and whose lock has a delay, has a delay marker in the directory: a persistent znode whose name
// is that of its claim but for the end. It is made right before Lock returns, and the release deletes it ahead of the claim. So a
// marker without its claim stands for a hold that ended in any other way, or for an attempt that died right before its hold began. It
// stays for the next contender, which in the last case waits for a delay that protects nothing.
const delayMarkerWord = "-held"

// DelayMax is the largest Options.Delay.
const DelayMax = time.Hour

// DelayMarker returns the name of the delay marker of an attempt.
func (id ID) DelayMarker() string { return protectedPrefix + string(id) + delayMarkerWord }

// Orphans returns the names of the delay markers in a listing whose claims are gone.
func Orphans(names []string) []string {
	claimed := map[ID]bool{}
	for _, name := range names {
		if _, _, ok := ParseName(name); ok {
			id, _ := IDOf(name)
			claimed[id] = true
		}
	}
	var left []string
	for _, name := range names {
		if id, ok := IDOf(name); ok && name == id.DelayMarker() && !claimed[id] {
			left = append(left, name)
		}
	}
	return left
}

// markerData is the data of a delay marker.
type markerData struct {
	Delay int64 `json:"delay_ms"` // Options.Delay of the holder, in milliseconds that have begun
}

// EncodeDelay returns the data of a delay marker.
func EncodeDelay(delay time.Duration) []byte {
	b, _ := json.Marshal(markerData{Delay: (delay + time.Millisecond - 1).Milliseconds()}) // nothing in it can fail
	return b
}

// DelayOf returns the delay that a marker's data asks for, at most DelayMax; without a valid number it returns unless.
func DelayOf(data []byte, unless time.Duration) time.Duration {
	var d markerData
	if json.Unmarshal(data, &d) != nil || d.Delay <= 0 {
		return unless
	}
	return time.Duration(min(d.Delay, DelayMax.Milliseconds())) * time.Millisecond
}
