// Package zkcli understands the lines that people type into ZooKeeper's own zkCli, and answers in its words: what
// it prints to standard output and to standard error, verb by verb. test/interop compares it with the real one.
package zkcli
