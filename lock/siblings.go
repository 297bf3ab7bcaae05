package lock

import (
	"runtime"
	"sync"
	"weak"

	"github.com/lockkeeper/lockkeeper/client"
)

// The siblings of an attempt are those of the same session to get the same lock, which has no line.
//
// The node of such a lock says in its data which attempt's it is, and anybody may write something else there:
// Curator's Revoker does. The server says which session's it is. Whoever has had the answer to its create knows its
// node by the creation zxid. One whose answer was lost may take a node for its own that is the session's, that
// does not say to be a sibling's, and that was made after all that siblings know of:
//
//  1. It was made by a sibling, for nobody else makes one here by this session; and by none that knows of it, or
//     something as new would be known. Where something newer is known, it has gone.
//  2. None whose answer is still to come has made it. Answers of a connection keep the order of the requests, and
//     when it ends, all that it owes are given before another begins: so when a look at the node is answered, the
//     creates whose effect it shows have been. An answer counts from when it has come, also if its attempt has
//     not looked at it yet.
//  3. So it was made by one of those whose answers were lost. Which of them gets it makes no difference to anybody
//     outside: it is the first that asks. From then on the node is known, and the others find it in their way.
//
// It lives as long as there is an entrance to the lock, and so as long as one of its attempts, grants and debris.
type siblings struct {
	mu    sync.Mutex
	known int64                   // the newest creation zxid that a sibling has had
	asked map[attemptID]answering // the last create of each that is not settled
}

// An answering is a request that is to make a node.
type answering interface {
	// told returns the node's creation zxid if the answer has come and says that it was made, otherwise 0.
	told() int64
}

// ask notes the create that an attempt is about to send. The one before it has been answered.
func (k *siblings) ask(id attemptID, c answering) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hearLocked(id)
	if k.asked == nil {
		k.asked = map[attemptID]answering{}
	}
	k.asked[id] = c
}

// settled notes that an attempt knows what has become of its last create, or will never ask.
func (k *siblings) settled(id attemptID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hearLocked(id)
	delete(k.asked, id)
}

// claim makes a node of the session's known as that of the attempt that asks, which has had no answer to its
// create. It reports false if the node is a sibling's, or gone.
func (k *siblings) claim(czxid int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.asked {
		k.hearLocked(id)
	}
	if czxid <= k.known {
		return false
	}
	k.known = czxid
	return true
}

// hearLocked makes known what the answer to an attempt's last create has told.
func (k *siblings) hearLocked(id attemptID) {
	if c := k.asked[id]; c != nil {
		k.known = max(k.known, c.told())
	}
}

// families are the siblings of all locks without a line that are in use: one session may have several entrances to
// a lock, which do not know of each other.
var families = struct {
	sync.Mutex
	at map[family]weak.Pointer[siblings]
}{at: map[family]weak.Pointer[siblings]{}}

// A family is what siblings have in common.
type family struct {
	s   *client.Session
	dir string
}

// siblings returns those that there are, or will be.
func (f family) siblings() *siblings {
	families.Lock()
	defer families.Unlock()
	if k := families.at[f].Value(); k != nil {
		return k
	}
	k := &siblings{}
	families.at[f] = weak.Make(k)
	runtime.AddCleanup(k, family.forget, f)
	return k
}

// forget is called when an entrance was the last one.
func (f family) forget() {
	families.Lock()
	defer families.Unlock()
	if families.at[f].Value() == nil { // nobody has come again meanwhile
		delete(families.at, f)
	}
}
