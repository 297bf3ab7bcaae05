// Package peer runs lock clients of several makes as processes, so that tests can let them compete
// for one lock and kill any of them: Curator's InterProcessMutex, kazoo's Lock, go-zookeeper's Lock
// and our own mutex.
//
// Each peer has a session with ZooKeeper and a connection to a register, and obeys lines on stdin:
//
//	lock PATH        acquire, however long it takes, and enter the register: "held TOKEN"
//	try PATH MILLIS  the same within a time: "held TOKEN" or "busy"
//	unlock           leave the register and release: "released"
//	cycle PATH N     lock and unlock N times: "done N"
//	quit             close the session and end: "bye"
//
// It says "ready" when it has a session, and "error …" when something went wrong. The token is the
// creation zxid of the znode with which it holds the lock.
//
// A TestMain of a package that uses peers must call Main first.
package peer
