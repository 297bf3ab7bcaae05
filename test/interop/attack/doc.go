// Package attack attacks servers as a stranger on the network could, and measures what a client that behaves well
// notices of it.
//
// Each attack runs in a process of its own, from addresses of 127.0.0.0/8 that the victim does not use, and ends by
// itself: its connections and its time are limited. The victim asks at a fixed pace. Its latencies count from the
// moment at which a request was due, so that a stall is not hidden by the requests that it delays. Beside the victim
// some sessions only ping; each of them must outlive the attack. An echo in a process of its own is asked at the same
// pace, which shows what of the victim's latency is the machine's: on a machine with few processors the attacker and
// everything else that runs take their part.
//
// make attack runs every attack against this repository's server and against Apache ZooKeeper, and prints a table.
// The short form is a test like others. It checks what no load of the machine can excuse: the server lives, no healthy
// session is lost, and the memory stays within its limit.
package attack
