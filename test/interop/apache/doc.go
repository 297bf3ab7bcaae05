// Package apache runs Apache ZooKeeper, as Debian packages it, for tests: one server or an ensemble,
// each a process of its own that can be killed, frozen, thawed and started again.
//
// Every process belongs to a test and is gone when the test is over, whatever the test did with it:
// it is killed at cleanup, and by the kernel should the test binary die first. A failing test shows
// the end of every server's log.
package apache
