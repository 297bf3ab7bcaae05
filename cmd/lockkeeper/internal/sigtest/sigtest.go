// Package sigtest gives the processes that tests start the signals that a user's shell would give them,
// however the tests themselves were started.
package sigtest

import (
	"os"
	"os/signal"
	"syscall"
)

// Defaults makes the children of this process start with every signal at its default, also if this one
// was started with some ignored, as nohup and the background jobs of scripts are. The process still ends
// on them.
func Defaults() {
	c := make(chan os.Signal, 1)
	// A signal that is caught goes to its default in a child; one that is ignored stays ignored. Of those
	// that may be ignored from the start, the Go runtime leaves these two alone.
	signal.Notify(c, syscall.SIGHUP, syscall.SIGINT)
	go func() {
		sig := (<-c).(syscall.Signal)
		os.Exit(128 + int(sig))
	}()
}
