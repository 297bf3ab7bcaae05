//go:build !unix

package server

import "net"

// inputProbe tells whether something has arrived that has not been read yet, where the system lets it.
type inputProbe struct{}

func newInputProbe(net.Conn) inputProbe { return inputProbe{} }

func (inputProbe) waits() bool { return false }

// directWriter sends what a socket takes without waiting, where the system lets it.
type directWriter struct{}

func newDirectWriter(net.Conn) directWriter { return directWriter{} }

func (directWriter) write([]byte) int { return 0 }
