// Package leases holds locks for a long time on three Apache ZooKeeper servers that nothing happens to, and shows that the
// rule of internal/lease costs nothing there: no hold is lost that the simpler rule before it would have kept. That rule
// granted two thirds of the session timeout after each answered request, whatever came before it; it was unsafe.
//
//	make soak MINUTES=60
package leases
