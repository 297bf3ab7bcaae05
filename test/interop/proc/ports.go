package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// The ports that servers get lie below those that Linux gives to outgoing connections: no connection of another
// test takes one of them before the server does.
const (
	portMin = 10000
	PortMax = 32767
)

// portTries bounds how many ports are tried for each that is wanted.
const portTries = 100

// claims are the ports that this process has claimed. A port is claimed by a lock on the byte of that number in a file that all
// test processes share, and until the process ends: a server of another process would take the port while nothing listens on it,
// as before a server has started, or when it is started again.
var claims = struct {
	sync.Mutex
	file *os.File
	of   map[int]bool
}{of: map[int]bool{}}

// Claim claims a port of the loopback address, and reports whether it could: no other claim is on it, and nothing listens there.
func Claim(port int) (bool, error) {
	claims.Lock()
	defer claims.Unlock()
	if claims.file == nil {
		f, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprint("lockkeeper-test-ports-", os.Getuid())), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return false, fmt.Errorf("claim a port: %w", err)
		}
		claims.file = f
	}
	if claims.of[port] { // of this process, which the lock would not refuse
		return false, nil
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(port), Len: 1}
	if err := syscall.FcntlFlock(claims.file.Fd(), syscall.F_SETLK, &lock); err != nil {
		if err == syscall.EAGAIN || err == syscall.EACCES {
			return false, nil
		}
		return false, fmt.Errorf("claim port %d in %s: %w", port, claims.file.Name(), err)
	}
	claims.of[port] = true
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return false, nil // something else has it
	}
	return true, l.Close()
}

// FreePorts claims n ports of the loopback address.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n * portTries {
		if len(ports) == n {
			break
		}
		port := portMin + rand.IntN(PortMax-portMin+1)
		ok, err := Claim(port)
		if err != nil {
			return nil, err
		}
		if ok {
			ports = append(ports, port)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("%d free ports in %d tries, %d are wanted (stop what listens on 127.0.0.1)", len(ports), n*portTries, n)
	}
	return ports, nil
}

// FreeAddress returns the loopback address with such a port.
func FreeAddress() (string, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return "", err
	}
	return fmt.Sprint("127.0.0.1:", ports[0]), nil
}
