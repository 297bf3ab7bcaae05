// Package queue holds the rules of the locks, as functions of what was read: the names of znodes, the queue that a listing
// shows, the claims that a claim has to wait for, release and delay markers, the data of znodes, and the graph of waits.
// It does no I/O and looks at no clock.
package queue
