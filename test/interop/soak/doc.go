// Package soak has a hundred clients work with ten thousand locks of all kinds for as long as one likes,
// and looks again and again, while they rest, whether anything has grown: goroutines, descriptors and
// memory on both sides, watches and znodes at the server.
//
//	make soak MINUTES=60
//
// The same command holds locks on three Apache ZooKeeper servers for as long, with two session timeouts and all levels of
// heartbeat, on a busy machine. It counts the holds that the rule of the lease ended before 2/3 of the timeout had passed.
package soak
