// Package zk holds the terms that all packages share: paths, stats, access
// control lists, create modes, events and error codes, named as ZooKeeper names them.
//
// It does no I/O, keeps no state and imports nothing of ours, so that the client, the server
// and the recipes can speak of the same things without knowing each other.
package zk
