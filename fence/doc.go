// Package fence is for resources downstream of a lock: what its holder writes to, be it a database, a service or
// a device. It remembers, for each resource, the highest fencing token that it has seen, and refuses an
// older one.
//
// # Why
//
// No lock can stop a process that was paused between looking at its hold and writing. When it goes on,
// the lock may have passed to another, and its write arrives late. Tokens of one lock grow from holder
// to holder (lock.Hold.Token), so a resource that compares them can tell. Kleppmann, "How to do
// distributed locking" (2016), and Burrows, "The Chubby lock service" (OSDI 2006, section 2.4,
// sequencers) describe the idea.
//
// # What is promised
//
//  1. Work under a token begins only if no higher token has been seen for its resource.
//  2. Work under a lower token is over before work under a higher one begins. To compare first and to
//     write afterwards is not enough: the writer may be paused between the two. So the comparison and
//     the work are one step, in [Memory.Do] because the newer one waits, in [Table.Check] because the
//     transaction holds the row.
//  3. A token is remembered for as long as the register lives: a [Memory] with its process, a [Table]
//     with its database. Give what is protected a register that lives at least as long as itself.
//
// An equal token is the same holder, and is let in, as often as it comes and several at a time: no other
// holder can have it.
//
// # Which tokens
//
// Those of exclusive locks: a mutex, the write side of a read/write lock, a leadership. Others do not
// order their holders. Permits of a semaphore are held together, so a lower token is no older one; and
// so it is among the readers of a read/write lock. Neither may be sent here; SetHeader refuses both, and a bare
// token does not tell.
//
// A resource is guarded by one lock, and is named as the resource likes; the lock's path is a good name.
// Tokens grow for the life of an ensemble. If the ensemble is set up afresh and begins to count again,
// all holders are refused until the resource's row is deleted.
//
// A register believes a token: one that is too high locks out all real holders. Authenticate
// callers first.
package fence
