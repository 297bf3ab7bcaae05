package register

import (
	"bufio"
	"fmt"
	"net"
	"strings"
)

// A Client is a holder's connection to a register.
type Client struct {
	nc    net.Conn
	lines *bufio.Scanner
	name  string
}

// Dial connects the holder called name, which must be unique and without spaces.
func Dial(addr, name string) (*Client, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Client{nc, bufio.NewScanner(nc), name}, nil
}

// Enter says that the holder has the lock that e names.
func (c *Client) Enter(e Entry) error {
	return c.say("enter %s %d %s %d", c.name, e.Token, e.Place, e.Limit)
}

// Leave says that the holder is about to give it up.
func (c *Client) Leave(place string) error { return c.say("leave %s %s", c.name, place) }

// Close hangs up.
func (c *Client) Close() error { return c.nc.Close() }

func (c *Client) say(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(c.nc, line); err != nil {
		return err
	}
	if !c.lines.Scan() {
		return fmt.Errorf("register hung up on %q", line)
	}
	if a := strings.TrimSpace(c.lines.Text()); a != "ok" {
		return fmt.Errorf("register answers %q to %q", a, line)
	}
	return nil
}
