package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/lockkeeper/lockkeeper/bench/peers"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

// engineNames say what the locks of the libraries were kept by, and that all of it was synced.
var engineNames = map[peers.Engine]string{
	peers.Ours:   "lockkeeper server (every write synced)",
	peers.Apache: "Apache ZooKeeper (every write synced, -Xmx4g)",
	peers.Etcd:   "etcd (every write synced)",
	peers.Redis:  "Redis (appendfsync always, no snapshots)",
	peers.Bare:   "a process that writes what it gets to a file, syncs and sends it back",
}

// newEngine returns the server for an engine, with its data below dir.
func newEngine(e peers.Engine, dir string) (*server, error) {
	switch e {
	case peers.Ours:
		return newOurs(dir)
	case peers.Apache:
		return newApache(dir)
	case peers.Etcd:
		return newEtcd(dir)
	case peers.Redis:
		return newRedis(dir)
	case peers.Bare:
		return newBare(dir)
	}
	return nil, fmt.Errorf("no engine %d", e)
}

func newEtcd(dir string) (*server, error) {
	addr, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	peer, err := proc.FreeAddress()
	return &server{name: "etcd", addr: addr, log: filepath.Join(dir, "etcd.log"), ready: accepts,
		command: []string{"/usr/bin/etcd", "--data-dir", filepath.Join(dir, "etcd"), "--log-level", "error",
			"--listen-client-urls", "http://" + addr, "--advertise-client-urls", "http://" + addr,
			"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer,
			"--initial-cluster", "default=http://" + peer}}, err
}

func newRedis(dir string) (*server, error) {
	addr, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "redis")
	host, port, _ := net.SplitHostPort(addr)
	return &server{name: "redis", addr: addr, log: filepath.Join(dir, "redis.log"), ready: pongs,
		command: []string{"/usr/bin/redis-server", "--bind", host, "--port", port, "--dir", data,
			"--appendonly", "yes", "--appendfsync", "always", "--save", ""}}, os.Mkdir(data, 0o755)
}

func newBare(dir string) (*server, error) { return newSelf(dir, "the floor", "synced") }

// newSelf returns a server that is a command of this program, which takes an address and a directory to make.
func newSelf(dir, name, command string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := proc.FreeAddress()
	return &server{name: name, addr: addr, log: filepath.Join(dir, command+".log"), ready: accepts,
		command: []string{self, command, addr, filepath.Join(dir, command+"-data")}}, err
}

// accepts reports whether a server listens there.
func accepts(addr string) bool {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

// pongs reports whether a Redis answers.
func pongs(addr string) bool {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(answerTime))
	if _, err := io.WriteString(nc, "PING\r\n"); err != nil {
		return false
	}
	answer := make([]byte, 7)
	_, err = io.ReadFull(nc, answer)
	return err == nil && bytes.Equal(answer, []byte("+PONG\r\n"))
}
