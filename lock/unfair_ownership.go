package lock

import (
	"context"
	"runtime"
	"sync"
	"weak"

	"github.com/lockkeeper/lockkeeper/client"
)

// sessionAttempts are the attempts of one session to get the same unfair lock. They have to know of each other for the sake
// of one question: an attempt has sent its create, the answer was lost, and now there is a node of this session at the
// lock's path. Is it the attempt's own?
//
// The node's data says which attempt made it, but other clients may write over that, as Curator's Revoker does. What
// cannot be changed are the session that owns the node and its creation zxid, which is known to an attempt whose create was
// answered. So an attempt without an answer takes a node for its own if it is the session's, if its data names no other
// attempt, and if it was created after every node that one of these attempts knows of. That is right:
//
//  1. One of these attempts has made it, for nothing else of this session makes one here. It was none of those that had an answer:
//     then the node's creation zxid would be known.
//  2. It was none of those whose answer is still to come. Answers come in the order of the requests, and a connection that
//     ends fails all its requests before the next one begins: so when a look at the node is answered, every create whose
//     effect it can show has been answered or has failed. An answer counts from when it has come, also if its attempt
//     has not looked at it yet.
//  3. So it was one of those whose answers were lost. Which of them gets the node makes no difference
//     outside: it is the first that asks. From then on its creation zxid is known, and the others find it in their way.
//
// They live as long as there is a lock value of the lock, and so as long as any of its attempts, grants and leftovers.
type sessionAttempts struct {
	mu      sync.Mutex
	known   int64                             // the newest creation zxid that one of them knows of
	creates []func() (czxid int64, come bool) // creation.answer of those whose answers are not in known, the oldest first
}

// answer reports whether the answer has come, and returns the creation zxid if it says that a node was made.
func (c *creation) answer() (czxid int64, come bool) {
	select {
	case <-c.one.Done():
		made, _ := c.one.Wait(context.Background())
		return made.Stat.Czxid, true
	default:
		return 0, false
	}
}

// add notes the answer of a create that is about to be sent. Answers come in the order of the requests, so what has been answered is
// at the front.
func (k *sessionAttempts) add(answer func() (czxid int64, come bool)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.creates) > 0 {
		czxid, come := k.creates[0]()
		if !come {
			break
		}
		k.known = max(k.known, czxid)
		k.creates = k.creates[1:]
	}
	k.creates = append(k.creates, answer) // last: to ask for its answer makes another goroutine read the connection (Pending.Done)
}

// adopt gives a node of the session's to the attempt that asks, whose create was not answered. It reports false if
// the node is another attempt's, or has gone since it was looked at.
func (k *sessionAttempts) adopt(czxid int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, answer := range k.creates {
		made, _ := answer()
		k.known = max(k.known, made)
	}
	if czxid <= k.known {
		return false
	}
	k.known = czxid
	return true
}

// sessionLocks has the attempts of all unfair locks that are in use. It is global because one session may have several
// values of one lock, which do not know of each other.
var sessionLocks = struct {
	sync.Mutex
	at map[sessionLock]weak.Pointer[sessionAttempts]
}{at: map[sessionLock]weak.Pointer[sessionAttempts]{}}

// A sessionLock is the key of sessionLocks.
type sessionLock struct {
	s   *client.Session
	dir string
}

// attempts returns the attempts of that key, and makes a value for them if there is none.
func (f sessionLock) attempts() *sessionAttempts {
	sessionLocks.Lock()
	defer sessionLocks.Unlock()
	if k := sessionLocks.at[f].Value(); k != nil {
		return k
	}
	k := &sessionAttempts{}
	sessionLocks.at[f] = weak.Make(k)
	runtime.AddCleanup(k, sessionLock.forget, f)
	return k
}

// forget is called when the last lock value is gone.
func (f sessionLock) forget() {
	sessionLocks.Lock()
	defer sessionLocks.Unlock()
	if sessionLocks.at[f].Value() == nil { // no new lock value has come meanwhile
		delete(sessionLocks.at, f)
	}
}
