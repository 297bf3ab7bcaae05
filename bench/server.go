package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

const (
	startLimit = 5 * time.Minute
	startPoll  = time.Millisecond
	answerTime = 5 * time.Second // of one that is asked; Apache ZooKeeper may never answer a client that asks while it starts
)

// A server is one of those that are measured, to be started as often as needed on the same directory.
type server struct {
	name, addr string
	command    []string
	log        string
	ready      func(addr string) bool // whether it serves; nil for what answers to srvr
	cmd        *exec.Cmd
	process    *proc.Process
}

// startOurs returns our server, which serves.
func startOurs(dir string) (*server, error) {
	s, err := newOurs(dir)
	if err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// newOurs builds the command from the checkout.
func newOurs(dir string) (*server, error) { return newOursFrom("..", dir) }

// newOursFrom builds the command from a directory with its source.
func newOursFrom(source, dir string) (*server, error) {
	binary, err := filepath.Abs(filepath.Join(dir, "lockkeeper"))
	if err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-o", binary, "./cmd/lockkeeper")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the command: %w\n%s", err, out)
	}
	addr, err := proc.FreeAddress()
	return &server{name: "lockkeeper", addr: addr, log: filepath.Join(dir, "ours.log"),
		command: []string{binary, "server", "--data", filepath.Join(dir, "ours"), "--listen", addr, "--set", "maxClientCnxns=0"}}, err
}

// newApache configures Apache ZooKeeper; the JVM chooses what it chooses by itself, but for the heap.
func newApache(dir string) (*server, error) {
	addr, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=2000\nmaxClientCnxns=0\nadmin.enableServer=false\n",
		filepath.Join(dir, "apache"), port)
	return &server{name: "apache", addr: addr, log: filepath.Join(dir, "apache.log"),
		command: []string{"/usr/bin/java", "-Xmx4g", "-Dzookeeper.jmx.log4j.disable=true",
			"-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", config}}, os.WriteFile(config, []byte(text), 0o644)
}

// start starts the server and returns when it serves: it may listen while it still reads its data.
func (s *server) start() error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(s.command[0], s.command[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.process, err = proc.Start(s.cmd); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); time.Sleep(startPoll) {
		if s.serves() {
			return nil
		}
		select {
		case <-s.process.Exited():
			text, _ := os.ReadFile(s.log)
			return fmt.Errorf("%s exited:\n%s", s.name, text[max(0, len(text)-2000):])
		default:
		}
	}
	return fmt.Errorf("%s does not serve after %v", s.name, startLimit)
}

// serves reports whether the server says what it is, as one does that serves.
func (s *server) serves() bool {
	if s.ready != nil {
		return s.ready(s.addr)
	}
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		return false
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(answerTime))
	if _, err := io.WriteString(nc, "srvr"); err != nil {
		return false
	}
	answer, _ := io.ReadAll(nc)
	return bytes.Contains(answer, []byte("Mode:"))
}

// stop kills the server if it runs.
func (s *server) stop() {
	if s.process != nil {
		s.process.Kill()
	}
}
