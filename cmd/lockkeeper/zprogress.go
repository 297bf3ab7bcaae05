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
		if time.Since(last) < progressInterval {
			return
		}
		last = time.Now()
		rate := float64(done) / time.Since(begin).Seconds()
		text := fmt.Sprintf("%d %s, %.0f/s", done, did, rate)
		if total > 0 {
			text = fmt.Sprintf("%d of %d %s, %d%%, %.0f/s", done, total, did, 100*done/total, rate)
		}
		fmt.Fprint(f, clearLine+text)
		e.unfinished = true
	}
}

// clearLine goes to the beginning of a terminal's line, and clears it.
const clearLine = "\r\x1b[K"

// endProgress clears what progress has shown, before something else is shown.
func (e *zEnv) endProgress() {
	if e.unfinished {
		fmt.Fprint(e.notes, clearLine)
		e.unfinished = false
	}
}
