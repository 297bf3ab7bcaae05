package socket

import (
	"errors"
	"net"
	"os"
	"slices"
)

// IsTimeout reports whether err says that a deadline has passed. Not every net.Conn says os.ErrDeadlineExceeded: gVisor's do not.
func IsTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// WithoutAddress returns the error of a network operation without the operation and the addresses, which the caller names itself.
func WithoutAddress(err error) error {
	if op, ok := err.(*net.OpError); ok && slices.Contains([]string{"dial", "read", "write"}, op.Op) { // and not an alert of TLS
		err = op.Err
	}
	if call, ok := err.(*os.SyscallError); ok {
		err = call.Err
	}
	return err
}
