// Package interop tests Lockkeeper against what it must get along with: Apache ZooKeeper as the
// server, Curator, go-zookeeper and kazoo as the others in the queue.
package interop
