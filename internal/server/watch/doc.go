// Package watch holds the watches that a server keeps for its clients.
//
// It is a pure table: events go in, deliveries come out. Its owner guards it, and sends them.
// Watches of a znode cost nothing to events of another, and recursive watches cost nothing to a
// server that has none.
package watch
