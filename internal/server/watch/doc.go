// Package watch knows who wants to be told what: the watches that a server keeps for its clients.
//
// It is a pure table: events go in, deliveries come out, whoever owns it guards it and sends.
// Watches of a znode cost nothing to events of another, and recursive watches cost nothing to a
// server that has none.
package watch
