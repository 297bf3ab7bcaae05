// Package soak has a hundred clients work with ten thousand locks of all kinds for as long as one likes,
// and looks again and again, while they rest, whether anything has grown: goroutines, descriptors and
// memory on both sides, watches and znodes at the server.
//
//	make soak MINUTES=60
package soak
