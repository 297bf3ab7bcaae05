// Package ensemble tests lockkeeper ensemble init and grow with real Apache ZooKeeper processes, which run from the
// directories that the commands write.
package ensemble
