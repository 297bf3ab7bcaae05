package lock

import (
	"runtime"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

// An answer is what a create has been told, 0 as long as it has not.
type answer struct{ czxid int64 }

func (a *answer) answer() (czxid int64, come bool) { return a.czxid, a.czxid != 0 }

// A node is known as another attempt's from the moment the answer has come, also if that attempt has not looked at it
// yet, or other creates have been sent since. What has been answered is not kept.
func TestF01_SiblingsAnswers(t *testing.T) {
	for _, more := range []bool{false, true} {
		k := &sessionAttempts{}
		x, y := &answer{}, &answer{}
		k.add(x.answer)
		k.add(y.answer)
		x.czxid = 7
		if more {
			k.add((&answer{}).answer)
			if len(k.creates) != 2 {
				t.Errorf("%d creates are kept, 2 of them without an answer", len(k.creates))
			}
		}
		if k.adopt(7) {
			t.Errorf("more %v: y takes the node that x was told of", more)
		}
		if k.adopt(6) {
			t.Errorf("more %v: y takes a node that was made before one that is known", more)
		}
		if !k.adopt(8) {
			t.Errorf("more %v: no attempt takes the node that x was not told of", more)
		}
		if k.adopt(8) {
			t.Errorf("more %v: two take a node", more)
		}
		k.add((&answer{}).answer)
		if k.adopt(8) || !k.adopt(9) {
			t.Errorf("more %v: what was known is forgotten", more)
		}
	}
}

// Lock values of one lock by one session share their attempts, others have others, and those that are not used go.
func TestAttemptsOfOneLock(t *testing.T) {
	s, other := new(client.Session), new(client.Session)
	mine := sessionLock{s, "/a"}.attempts()
	mine.adopt(1)
	if (sessionLock{s, "/a"}).attempts() != mine {
		t.Error("two Lock values of one lock have different lists of attempts")
	}
	if (sessionLock{s, "/b"}).attempts() == mine || (sessionLock{other, "/a"}).attempts() == mine {
		t.Error("two locks, or two sessions, share a list of attempts")
	}
	runtime.KeepAlive(mine)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		sessionLocks.Lock()
		left := 0
		for f := range sessionLocks.at {
			if f.s == s || f.s == other {
				left++
			}
		}
		sessionLocks.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the attempts of %d locks are left that are not used", left)
		}
	}
}
