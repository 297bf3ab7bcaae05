package lock

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"strings"
)

// The name of a claim's znode is a prefix that only its attempt has, a word that says what is claimed and
// that all clients which share the lock agree on, and the number that the server appends:
//
//	_c_0123456789abcdef0123456789abcdef-lock-0000000042    ours, go-zookeeper's, Curator's mutex
//	0123456789abcdef0123456789abcdef__lock__0000000042     kazoo's
//	lock-0000000042                                        a create without protection
//	_c_….-__READ__0000000042, _c_…-__WRIT__0000000042      Curator's read/write lock, and ours
//	0123456789abcdef0123456789abcdef__rlock__0000000042    kazoo's read lock
//	_c_…-lease-0000000042                                  Curator's semaphore, and ours
//	_c_…-latch-0000000042                                  Curator's leader latch, and our election
//
// Everything else in the directory is somebody else's and none of our business: one stray child must
// not stop a lock.
const (
	protectedPrefix = "_c_"
	lockWord        = "-lock-"
	writeWord       = "-__WRIT__"
	readWord        = "-__READ__"
	leaseWord       = "-lease-"
	latchWord       = "-latch-"
	bareWord        = "lock-"
)

// A kind says what a claim asks for. Several kinds or-ed together are a set.
type kind uint8

// The kinds of claims.
const (
	exclusive kind = 1 << iota // to hold the lock alone: a mutex, or the write side of a read/write lock
	shared                     // to hold it together with other shared claims: the read side
	permit                     // one of a semaphore's permits
	candidacy                  // to lead, in an election
)

// words are the words of names, with what they claim.
var words = [...]struct {
	word string
	kind kind
}{
	{lockWord, exclusive}, {"__lock__", exclusive}, {writeWord, exclusive},
	{readWord, shared}, {"__rlock__", shared},
	{leaseWord, permit}, {latchWord, candidacy},
}

// An attemptID is random, and in the names of all nodes of one attempt to get a lock. By it they are found again
// after a lost reply; and since no name is ever used twice, a delete can hit no other's node.
type attemptID string

// attemptDigits is how many hexadecimal digits an attemptID has.
const attemptDigits = 32

func newAttemptID() attemptID {
	var b [attemptDigits / 2]byte
	rand.Read(b[:]) // never fails, by its documentation
	return attemptID(hex.EncodeToString(b[:]))
}

// prefix returns the name with which a node of this attempt is created, for a claim of that word.
func (id attemptID) prefix(word string) string { return protectedPrefix + string(id) + word }

// made reports whether the node called name was created by this attempt.
func (id attemptID) made(name string) bool {
	rest, ok := strings.CutPrefix(name, protectedPrefix)
	return ok && len(rest) > len(id) && rest[:len(id)] == string(id) && rest[len(id)] == '-'
}

// bellWord ends the name of the znode by which a holder that had to wait announces its release; see
// grant.delete. No claim's name ends so.
const bellWord = "-released"

// bell returns the name of the bell that belongs to an attempt.
func (id attemptID) bell() string { return protectedPrefix + string(id) + bellWord }

// bellOf returns the name of the bell that the claim called name would ring, if it is one of ours.
func bellOf(name string) (bell string, ok bool) {
	rest, ok := strings.CutPrefix(name, protectedPrefix)
	if !ok || len(rest) <= attemptDigits || rest[attemptDigits] != '-' {
		return "", false
	}
	id := rest[:attemptDigits]
	if strings.Trim(id, "0123456789abcdef") != "" { // a UUID, of a client that does not ring
		return "", false
	}
	return attemptID(id).bell(), true
}

// parseName returns what a claim's node claims, and its number; ok is false for any other node.
func parseName(name string) (number int32, k kind, ok bool) {
	for _, width := range [...]int{numberDigits, numberDigits + 1} { // the minus of a negative one may end a word
		if len(name) < width {
			break
		}
		head := name[:len(name)-width]
		if number, ok = parseNumber(name[len(head):]); !ok {
			continue
		}
		for _, w := range words {
			if len(head) > len(w.word) && strings.HasSuffix(head, w.word) {
				return number, w.kind, true
			}
		}
		if head == bareWord {
			return number, exclusive, true
		}
	}
	return 0, 0, false
}

// numberDigits is how wide the server prints the counter, its sign included (%010d).
const numberDigits = 10

func parseNumber(s string) (int32, bool) {
	digits, negative := strings.CutPrefix(s, "-")
	if len(s) != numberDigits && !(negative && len(digits) == numberDigits && digits[0] != '0') {
		return 0, false
	}
	n := int64(0)
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if negative {
		n = -n
	}
	if n > math.MaxInt32 || n < math.MinInt32 || negative && n == 0 {
		return 0, false
	}
	return int32(n), true
}
