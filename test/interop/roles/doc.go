// Package roles holds the tests of the roles beside locks against Curator and kazoo as real peers, on Apache ZooKeeper:
// each side reads, counts, joins and waits for what the other has written. TestWhileServersFail runs them on three servers that
// are killed and frozen.
package roles
