package localserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// An Address is what a keeper writes about itself, for processes that look for it.
type Address struct {
	Socket string `json:"socket"`
	Pid    int    `json:"pid"`
	Host   string `json:"host"`
}

// read returns the address of the last keeper, which may be long gone.
func (p Places) read() (Address, error) {
	var a Address
	f, err := os.OpenFile(p.address(), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return a, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, addressBytesMax))
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	return a, err
}

// addressBytesMax is more than an address takes.
const addressBytesMax = 64 << 10

// write makes a the address. A reader sees the old one or the new one.
func (p Places) write(a Address) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(p.State, filepath.Base(p.address())+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // if it still has that name
	if _, err := f.Write(append(b, '\n')); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), p.address())
}

// announce writes where we listen, unless it is written already. The name of the host may have changed since, or
// the file may have been damaged.
func (p Places) announce(socket string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	own := Address{Socket: socket, Pid: os.Getpid(), Host: host}
	if a, err := p.read(); err == nil && a == own {
		return nil
	}
	return p.write(own)
}

// Find connects to the keeper if there is one.
func (p Places) Find() (net.Conn, Address, error) {
	if err := p.checkState(); err != nil {
		return nil, Address{}, err
	}
	a, err := p.read()
	if err != nil {
		return nil, a, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, a, err
	}
	if a.Host != host {
		return nil, a, fmt.Errorf("the keeper of %s was on host %s", p.State, a.Host)
	}
	if err := isPrivate(filepath.Dir(a.Socket)); err != nil {
		return nil, a, err // another user may have put a socket where the keeper was
	}
	c, err := net.Dial("unix", a.Socket) // answered or refused at once, by the kernel
	return c, a, err
}

// IsSocket reports whether path is where the keeper listens, or did before: it keeps the name of its socket when it
// has to move to another directory.
func (p Places) IsSocket(path string) bool {
	a, err := p.read()
	return err == nil && filepath.Base(a.Socket) == filepath.Base(path)
}
