package client

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// The text of failed attempts names each server once, and a reason once for all servers that have it.
func TestAttemptsAreListedByTheirOutcome(t *testing.T) {
	refused := func(port int) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	err := &OpenError{Err: errors.New("too late"), Attempts: []Attempt{{"a:1", refused(1)}, {"b:2", errBehind}, {"c:3", refused(3)}, {"d:4", errBehind}}}
	want := "no ZooKeeper session: too late (a:1, c:3: connection refused; b:2, d:4: " + errBehind.Error() + ")"
	if got := err.Error(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, new(*net.OpError)) {
		t.Error("the errors of the attempts are not to be found")
	}
}
