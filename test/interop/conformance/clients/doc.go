// Package clients lets clients that are not ours loose on our server: ZooKeeper's own command line,
// its C client, kazoo, Curator and go-zookeeper.
//
// Each of them does the same things to Apache ZooKeeper, and what it says about them must be the
// same, line by line. Both servers are fresh, so that even the zxids are.
package clients
