//go:build !linux

package socket

import (
	"io"
	"net"
)

// Direct returns nc.
func Direct(nc net.Conn) io.ReadWriter { return nc }
