package lock

import (
	"runtime"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

// An answer is what a create has been told, 0 as long as it has not.
type answer struct{ czxid int64 }

func (a *answer) answer() int64 { return a.czxid }

// A node is known as another attempt's from the moment the answer has come, also if that attempt has not looked at it
// yet, or has done with it since.
func TestF01_SiblingsAnswers(t *testing.T) {
	for _, settled := range []bool{false, true} {
		k := &sessionAttempts{}
		x, y := &answer{}, &answer{}
		k.ask("x", x)
		k.ask("y", y)
		x.czxid = 7
		if settled {
			k.settled("x")
		}
		if k.claim(7) {
			t.Errorf("settled %v: y takes the node that x was told of", settled)
		}
		if k.claim(6) {
			t.Errorf("settled %v: y takes a node that was made before one that is known", settled)
		}
		if !k.claim(8) {
			t.Errorf("settled %v: no attempt takes the node that x was not told of", settled)
		}
		if k.claim(8) {
			t.Errorf("settled %v: two take a node", settled)
		}
		k.ask("x", &answer{})
		if k.claim(8) || !k.claim(9) {
			t.Errorf("settled %v: what was known is forgotten", settled)
		}
	}
}

// Lock values of one lock by one session share their attempts, others have others, and those that are not used go.
func TestAttemptsOfOneLock(t *testing.T) {
	s, other := new(client.Session), new(client.Session)
	mine := sessionLock{s, "/a"}.attempts()
	mine.claim(1)
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
