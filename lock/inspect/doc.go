// Package inspect shows which contenders hold a lock and which wait for it, and intervenes: it is what operators and status pages need.
//
//   - [Look] and [LookAll] return locks as they are, and [Watch] and [WatchAll] again whenever they change. They only read.
//   - [Deadlocks] finds cycles of contenders that wait for each other.
//   - [Revoke] asks a contender to give up, and [Break] deletes its znode.
//
// What is shown is read from the znodes alone, so locks of Curator, go-zookeeper and kazoo are shown too.
package inspect

import (
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/lock/internal/waitgraph"
)

// A Contender is a process that holds a lock or waits for it, as its znode shows it; lock.Contender names its fields.
type Contender = queue.Contender

// A Kind says what a lock is, as its znodes tell.
type Kind = queue.Kind

// The kinds of locks. A path that several of them share, such as a mutex and read/write locks that exclude each other, is
// named after the contenders that are there.
const (
	KindNone             = queue.KindNone             // nothing is there, or no contender whose znode would tell
	KindMutex            = queue.KindMutex            // lock.Mutex, and those of Curator, go-zookeeper and kazoo
	KindReadWrite        = queue.KindReadWrite        // lock.RWMutex, Curator's and kazoo's
	KindSemaphore        = queue.KindSemaphore        // lock.Semaphore of NewSemaphore
	KindCuratorSemaphore = queue.KindCuratorSemaphore // lock.Semaphore of NewCuratorSemaphore, and Curator's
	KindKazooSemaphore   = queue.KindKazooSemaphore   // kazoo's Semaphore; what waits for it is not shown
	KindElection         = queue.KindElection         // candidates of a leader latch, ours and Curator's
	KindUnfair           = queue.KindUnfair           // lock.Unfair
)

// A Deadlock is a cycle of waits; see lock.Deadlock.
type Deadlock = queue.Deadlock

// ErrTooManyWaits is returned when a search for deadlocks would have to look at too many locks or contenders.
var ErrTooManyWaits = waitgraph.ErrTooManyWaits
