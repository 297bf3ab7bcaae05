// Package chaos lets processes take turns with locks on a real ensemble of three Apache ZooKeeper
// servers while servers, clients and the network between them fail, and judges what came of it.
//
// The clients are processes of this test binary: each has a session and, for every lock, a loop that
// acquires it, reads and writes a register outside under its token, looks again and again whether it
// still holds, and releases. Half of the clients vouch by sync, half by write. What a client does it
// writes to its stdout, a line at a time, with times of the machine's monotonic clock; so what a client
// that is killed had done is known up to the kill.
//
// Violations are
//
//  1. two holds of one lock that were certainly valid at the same instant: between two moments at which
//     its holder was told so, a hold was;
//  2. a history of a lock, or of what was written under it, that no sequence of operations explains:
//     tokens that do not grow, an older token that the register takes, an update that is lost.
//     Porcupine looks for one (Athalye, "Testing Distributed Systems for Linearizability", 2017, after
//     Wing and Gong 1993 and Lowe 2017). A history that has none is drawn, as HTML.
//
// A run of its own has only those faults that the arithmetic of the lease is about: servers are restarted one by one with
// another tick and another longest session timeout, and a client stops for half its session timeout just before its follower is
// killed. With the lease's former rule it shows two holders within minutes.
//
// The faults come one after another, drawn from a seed, which is printed. There are two rigs. With the
// rig "proxy" servers and clients are on the loopback address, with faultproxies in the clients and
// links between the servers; it needs no privileges and runs in make test. With the rig "netns" each is
// a host of its own, and packets are lost between them; make chaos runs it.
package chaos
