// Package replica plays the followers of an ensemble whose leader, with its quorum, is a real server.
//
// A Replica speaks ZooKeeper's protocol to clients. It keeps a tree of its own, which follows the leader's
// log with a lag, and answers reads and watches from that; writes, syncs and sessions it passes on to the
// leader, and an answer waits until the tree has caught up with it. It answers pings itself, and tells the
// leader twice a tick which sessions it has heard of, as ZooKeeper's followers do.
//
// What it is for are the states that one healthy server never has: a follower that lags, one that is cut off
// from its leader and goes on answering pings and reads, and a leader that is cut off from its quorum, which
// goes on answering syncs too.
package replica
