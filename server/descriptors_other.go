//go:build !unix

package server

import "net"

// descriptors cannot be counted here.
func descriptors() (open, most int, ok bool) { return 0, 0, false }

func takesLast(net.Conn) bool { return false }

// descriptorPlaces is how many connections the process may have: not known here.
func descriptorPlaces() int { return 0 }
