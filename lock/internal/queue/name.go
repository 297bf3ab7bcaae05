package queue

import (
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// The name of a claim's znode is a prefix that only its attempt has, a word that says what is claimed and
// that all clients which share the lock agree on, and the number that the server appends:
//
//	_c_0123456789abcdef0123456789abcdef-lock-0000000042    ours, go-zookeeper's, Curator's mutex
//	0123456789abcdef0123456789abcdef__lock__0000000042     kazoo's
//	lock-0000000042                                        a create without protection
//	_c_….-__READ__0000000042, _c_…-__WRIT__0000000042      Curator's read/write lock, and ours
//	0123456789abcdef0123456789abcdef__rlock__0000000042    kazoo's read lock
//	_c_…-lease-0000000042                                  Curator's semaphore, and ours: Curator's word for a permit
//	_c_…-latch-0000000042                                  Curator's leader latch, and our election
//
// All other children of the directory are ignored: one foreign child must not stop a lock.
const (
	protectedPrefix = "_c_"
	LockWord        = "-lock-"
	writeWord       = "-__WRIT__"
	ReadWord        = "-__READ__"
	PermitWord      = "-lease-"
	latchWord       = "-latch-"
	bareWord        = "lock-"
)

// Where Curator's semaphore has its znodes, below its path.
const (
	LeasesName = "leases"
	GateName   = "locks"
)

// isCuratorSemaphore reports whether names are those of both directories of Curator's semaphore, among others.
func isCuratorSemaphore(names []string) bool {
	return slices.Contains(names, LeasesName) && slices.Contains(names, GateName)
}

// A Mode says what a claim asks for: it is the mode of a lock, as databases have it. Several or-ed together are a set.
type Mode uint8

// The modes of claims.
const (
	Exclusive Mode = 1 << iota // to hold the lock alone: a mutex, or the write side of a read/write lock
	Shared                     // to hold it together with other shared claims: the read side
	Permit                     // one of a semaphore's permits
	Candidacy                  // to lead, in an election
)

// words are the words of names, with what they claim.
var words = [...]struct {
	Word string
	Mode Mode
}{
	{LockWord, Exclusive}, {"__lock__", Exclusive}, {writeWord, Exclusive},
	{ReadWord, Shared}, {"__rlock__", Shared},
	{PermitWord, Permit}, {latchWord, Candidacy},
}

// An ID is random, and in the names of all nodes of one attempt to get a lock. By it they are found again after a lost
// reply. Since no name with an ID is ever used twice, a delete never hits another attempt's node.
type ID string

// IDDigits is how many hexadecimal digits an ID has.
const IDDigits = 32

// Prefix returns the name with which a node of this attempt is created, for a claim of that word.
func (id ID) Prefix(word string) string { return protectedPrefix + string(id) + word }

// Made reports whether the node called name was created by this attempt.
func (id ID) Made(name string) bool {
	rest, ok := strings.CutPrefix(name, protectedPrefix)
	return ok && len(rest) > len(id) && rest[:len(id)] == string(id) && rest[len(id)] == '-'
}

// releaseWord ends the name of a release marker: the znode by which a holder announces its release (Rules.NeedsReleaseMarker). The
// transaction that deletes the holder's claim makes and deletes it. Without it, the deletion of the claim ahead does not tell a
// holder that released from a waiter that died, and each hand-over needs a listing. No claim's name ends so.
const releaseWord = "-released"

// ReleaseMarker returns the name of the release marker of an attempt.
func (id ID) ReleaseMarker() string { return protectedPrefix + string(id) + releaseWord }

// IDOf returns the ID in the name of a claim. go-zookeeper's names have one of the same form; Curator's UUIDs are none.
func IDOf(name string) (ID, bool) {
	rest, ok := strings.CutPrefix(name, protectedPrefix)
	if !ok || len(rest) <= IDDigits || rest[IDDigits] != '-' {
		return "", false
	}
	id := rest[:IDDigits]
	return ID(id), strings.Trim(id, "0123456789abcdef") == ""
}

// ParseName returns what a claim's node claims, and its number; ok is false for any other node.
func ParseName(name string) (number int32, k Mode, ok bool) {
	for _, width := range [...]int{numberDigits, numberDigits + 1} { // the minus of a negative one may end a word
		if len(name) < width {
			break
		}
		head := name[:len(name)-width]
		number, ok = parseNumber(name[len(head):])
		if !ok {
			continue
		}
		for _, w := range words {
			if len(head) > len(w.Word) && strings.HasSuffix(head, w.Word) {
				return number, w.Mode, true
			}
		}
		if head == bareWord {
			return number, Exclusive, true
		}
	}
	return 0, 0, false
}

// Downgraded returns the path that a downgrade gives to the claim at path, which is of a name of ours. ok is false of all other claims.
func Downgraded(path string) (read string, ok bool) {
	name := zk.Base(path)
	_, ours := IDOf(name)
	return zk.Join(zk.Parent(path), strings.Replace(name, writeWord, ReadWord, 1)), ours && mayMove(name)
}

// numberDigits is how wide the server prints the counter, its sign included (%010d).
const numberDigits = 10

func parseNumber(s string) (int32, bool) {
	digits, negative := strings.CutPrefix(s, "-")
	if len(s) != numberDigits && !(negative && len(digits) == numberDigits && digits[0] != '0') {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err == nil && s[0] != '+' && !(negative && n == 0)
}

// HoldID returns the path that all nodes of an attempt in a directory begin with, and no others do. It names a hold for as
// long as that lasts: a downgrade changes the node, and not the id.
func (id ID) HoldID(dir string) string { return zk.Join(dir, protectedPrefix+string(id)) }

// HoldIDOf returns the hold id of a claim's node, and for those of other clients its path.
func HoldIDOf(dir, name string) string {
	if id, ok := IDOf(name); ok {
		return id.HoldID(dir)
	}
	return zk.Join(dir, name)
}
