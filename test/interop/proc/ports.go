package proc

import (
	"fmt"
	"net"
)

// FreePorts returns n different ports of the loopback address that nothing listens on.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer ln.Close() // all at the end, so that no port is chosen twice
		ports[i] = ln.Addr().(*net.TCPAddr).Port
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
