// Package peer runs lock clients of several makes as processes, so that tests can let them compete
// for one lock and kill any of them: the recipes of Curator, of kazoo and of go-zookeeper, and our own.
//
// Each peer has a session with ZooKeeper and a connection to a register, and obeys lines on stdin:
//
//	lock PATH [AS]                 acquire, however long it takes, and enter the register: "held TOKEN"
//	try PATH MILLIS [AS]           the same within a time: "held TOKEN" or "busy"
//	unlock                         leave the register and release: "released"
//	cycle PATH N [AS]              lock and unlock N times: "done N"
//	spin PATH MILLIS INSIDE AS[,AS…]  lock, stay inside for INSIDE milliseconds and unlock, for a time,
//	                               as each in turn: "done N"
//	who PATH                       look at an election: "leads ID of ID…", all in the order of the line
//	revoke NODE                    ask the holder whose znode that is to give up: "asked" (Curator)
//	revoked MILLIS                 whether that has been asked of us, as Revocable, within a time: "revoked"
//	                               or "undisturbed" (Curator)
//	quit                           close the session and end: "bye"
//
// AS is what the lock is taken as; see [As]. PATH is several, joined by commas, for all of several locks.
//
// It says "ready" when it has a session, and "error …" when something went wrong. The token is the
// creation zxid of the znode with which it holds the lock, or the first of several.
//
// A TestMain of a package that uses peers must call Main first.
package peer
