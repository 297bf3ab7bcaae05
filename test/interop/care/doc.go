// Package care has the commands that keep ensembles and their data work on Apache ZooKeeper: lockkeeper ensemble roll,
// backup, restore and doctor.
package care
