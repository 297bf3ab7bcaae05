// Package notify tells the service manager that started us how far we are, in the protocol of
// systemd's sd_notify(3).
package notify

import (
	"fmt"
	"net"
	"os"
	"time"
)

// What there is to tell.
const (
	Ready    = "READY=1"    // we serve
	Stopping = "STOPPING=1" // we are about to end
)

// sendTimeout bounds a write to a manager that does not read.
const sendTimeout = time.Second

// Send tells the service manager, if there is one that wants to know ($NOTIFY_SOCKET). A name that begins
// with @ is an abstract one.
func Send(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	c, err := net.Dial("unixgram", name)
	if err != nil {
		return fmt.Errorf("tell the service manager %s: %w", state, err)
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(sendTimeout))
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell the service manager %s: %w", state, err)
	}
	return nil
}
