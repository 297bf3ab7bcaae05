package peer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/test/interop/register"
)

// As is what a lock is taken as: one of the constants, or Permit of a semaphore.
type As string

const (
	Mutex As = "mutex"
	Read  As = "read"  // the read side of a read/write lock
	Write As = "write" // the other side
	All   As = "all"   // several mutexes at once

	Leader As = "leader" // of an election

	Revocable As = "revocable" // Curator's mutex whose holder can be asked to give up

	Selector       As = "selector"        // Curator's LeaderSelector
	SemaphoreMutex As = "semaphore-mutex" // Curator's InterProcessSemaphoreMutex
)

const permitPrefix = "permit:"

// Permit is one of n of a semaphore.
func Permit(n int) As { return As(fmt.Sprint(permitPrefix, n)) }

// permits returns how many permits there are, if it is one of a semaphore.
func (a As) permits() (n int, ok bool) {
	digits, ok := strings.CutPrefix(string(a), permitPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// limit returns how many may be inside with a holder, itself included.
func (a As) limit() int {
	if n, ok := a.permits(); ok {
		return n
	}
	if a == Read {
		return register.Unlimited
	}
	return 1
}

// join puts several of them in one word.
func join(as []As) string {
	words := make([]string, len(as))
	for i, a := range as {
		words[i] = string(a)
	}
	return strings.Join(words, ",")
}
