package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// progressInterval is how often progress is shown.
const progressInterval = 200 * time.Millisecond

// progress returns what shows at a terminal how far long work has come; elsewhere it shows nothing. A total of 0 is
// not known.
func (e *zEnv) progress(did string, total int) func(done int) {
	f, ok := e.notes.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	begin, last := time.Now(), time.Now()
	return func(done int) {
		end := total > 0 && done >= total
		if now := time.Now(); now.Sub(last) < progressInterval && !(end && now.Sub(begin) > progressInterval) {
			return
		} else {
			last = now
		}
		rate := float64(done) / time.Since(begin).Seconds()
		if total > 0 {
			fmt.Fprintf(f, "\r\x1b[K%d of %d %s, %d%%, %.0f/s", done, total, did, 100*done/total, rate)
		} else {
			fmt.Fprintf(f, "\r\x1b[K%d %s, %.0f/s", done, did, rate)
		}
		if end {
			fmt.Fprint(f, "\r\x1b[K")
		}
	}
}
