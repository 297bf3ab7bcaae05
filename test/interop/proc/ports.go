package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that servers get lie below those that Linux gives to outgoing connections: no connection of another
// test takes one of them before the server does.
const (
	portMin = 10000
	portMax = 32767
)

// portTries bounds how many ports are tried for each that is wanted.
const portTries = 100

// FreePorts returns n different ports of the loopback address that nothing listens on.
func FreePorts(n int) ([]int, error) {
	var ports []int
	var last error
	for tries := n * portTries; len(ports) < n; tries-- {
		if tries == 0 {
			return nil, fmt.Errorf("no free port in %d tries (stop what listens on them): %w", n*portTries, last)
		}
		port := portMin + rand.IntN(portMax-portMin+1)
		ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			last = err
			continue
		}
		defer ln.Close() // all at the end, so that no port is chosen twice
		ports = append(ports, port)
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
