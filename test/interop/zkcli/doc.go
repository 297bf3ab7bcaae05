// Package zkcli compares lockkeeper zkcli with the zkCli of Apache ZooKeeper.
package zkcli
