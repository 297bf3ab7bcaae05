package apache

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

const (
	zookeeperJar = "/usr/share/java/zookeeper.jar"
	loggingJar   = "/usr/share/java/slf4j-simple.jar"
	servletJar   = "/usr/share/java/servlet-api.jar" // which Debian leaves out of ZooKeeper's class path, and with it the admin port
	serverClass  = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

	// startTimeout bounds how long a server may take from its start until it serves; on a machine
	// that is busy with other things a JVM may need some seconds.
	startTimeout = 60 * time.Second
	pollInterval = 20 * time.Millisecond

	// sessionTimeoutMax is what the servers grant at most, whatever the tick.
	sessionTimeoutMax = 10 * time.Minute

	// startAttempts bounds how often servers are started with fresh ports, because another process
	// took one of them in between.
	startAttempts = 5

	// logTailBytes is how much of a server's log a failing test shows.
	logTailBytes = 8 << 10
)

// Options say how servers are to be run. The zero value is good.
type Options struct {
	// Tick is the server's unit of time: sessions are granted at least two ticks and are found dead
	// up to one tick late. The default is 300 ms.
	Tick time.Duration
	// Seed is a data directory, with version-2 in it, that every server begins with a copy of;
	// empty for none. Nothing may be writing there.
	Seed string
	// Config holds more lines for zoo.cfg, Properties more system properties for the JVM.
	Config     map[string]string
	Properties map[string]string
	// Heap is the JVM's largest heap; default 160m.
	Heap string
	// Direct has the servers of an ensemble reach each other without links: then all have the same members in zoo.cfg,
	// and CutOff is of no use.
	Direct bool
	// Places say where the servers run, one for each; empty for all on the loopback address. A server
	// has its place to itself, and its usual ports there; it reaches the others without links.
	Places []Place
}

// A Place is a host of its own.
type Place struct {
	Host    string // address
	Command func(name string, args ...string) *exec.Cmd
}

func (o Options) tick() time.Duration {
	if o.Tick == 0 {
		return 300 * time.Millisecond
	}
	return o.Tick
}

// A Server is one ZooKeeper server. Its methods are for the goroutine of the test.
type Server struct {
	t      testing.TB
	id     int    // as in myid; 1 for a single server
	dir    string // holds zoo.cfg, data and log
	addr   string
	opts   Options
	logOut *os.File
	links  map[int]*Link // to the other servers, by their ids

	process *proc.Process // nil while the server is down
}

// Start runs one server and returns when it serves.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	return startAll(t, 1, o)[0]
}

// Addr returns host and port for clients.
func (s *Server) Addr() string { return s.addr }

// ID returns the server's number in its ensemble, from 1.
func (s *Server) ID() int { return s.id }

// Process returns the server's process; nil while the server is down.
func (s *Server) Process() *proc.Process { return s.process }

// DataDir returns the directory whose version-2 holds the server's files.
func (s *Server) DataDir() string { return filepath.Join(s.dir, "data") }

// place returns where the server runs.
func (s *Server) place() Place {
	if len(s.opts.Places) > 0 {
		return s.opts.Places[s.id-1]
	}
	return Place{Host: "127.0.0.1", Command: exec.Command}
}

// launch starts the process.
func (s *Server) launch() error {
	heap := s.opts.Heap
	if heap == "" {
		heap = "160m"
	}
	args := []string{"-Xmx" + heap, "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dfile.encoding=UTF-8",
		"-XX:-UsePerfData", "-Dzookeeper.jmx.log4j.disable=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"}
	for k, v := range s.opts.Properties {
		args = append(args, "-D"+k+"="+v)
	}
	args = append(args, "-cp", zookeeperJar+":"+loggingJar+":"+servletJar, serverClass, filepath.Join(s.dir, "zoo.cfg"))
	cmd := s.place().Command("/usr/bin/java", args...)
	cmd.Stdout, cmd.Stderr = s.logOut, s.logOut
	p, err := proc.Start(cmd)
	s.process = p
	return err
}

// Why a server does not begin to serve.
var (
	errExited    = errors.New("server exited")
	errPortTaken = errors.New("another process has one of the server's ports")
)

// portTaken reports whether the server has found one of its ports taken.
func (s *Server) portTaken() bool {
	return bytes.Contains(s.Log(), []byte("Address already in use"))
}

// awaitServing returns nil once the server answers as one that serves. fresh are servers with new ports: if one of them finds a
// port taken, that is why the server does not serve. Later in its life a server may find a port taken by a connection or a role
// of its own that is just ending; it tries again.
func (s *Server) awaitServing(fresh ...*Server) error {
	deadline := time.Now().Add(startTimeout)
	for {
		mode, err := s.Mode()
		switch {
		case err == nil && mode != "":
			return nil
		case slices.ContainsFunc(fresh, (*Server).portTaken):
			return errPortTaken
		case time.Now().After(deadline):
			return fmt.Errorf("server %d does not serve after %v: %v", s.id, startTimeout, err)
		}
		select {
		case <-s.process.Exited():
			return errExited
		case <-time.After(pollInterval):
		}
	}
}

// Kill ends the process at once, as a crash would, and returns when it is gone. What the server had
// not synced to disk is still there: the machine lives on.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	s.process = nil
}

// Freeze stops the process where it is: its sockets stay open and silent. Thaw lets it go on.
func (s *Server) Freeze() { s.signal((*proc.Process).Freeze) }

// Thaw ends a Freeze.
func (s *Server) Thaw() { s.signal((*proc.Process).Thaw) }

func (s *Server) signal(f func(*proc.Process) error) {
	s.t.Helper()
	if s.process == nil {
		s.t.Fatalf("signal to server %d, which is down", s.id)
	}
	if err := f(s.process); err != nil {
		s.t.Fatalf("server %d: %v", s.id, err)
	}
}

// Launch starts a server that is down, with the data and at the address that it had, and does not
// wait for it.
func (s *Server) Launch() {
	s.t.Helper()
	if s.process != nil {
		s.t.Fatalf("server %d is up already", s.id)
	}
	if err := s.launch(); err != nil {
		s.t.Fatalf("start server %d: %v", s.id, err)
	}
}

// AwaitServing waits until a server that was launched serves.
func (s *Server) AwaitServing() {
	s.t.Helper()
	if err := s.awaitServing(); err != nil {
		s.t.Fatalf("server %d: %v", s.id, err)
	}
}

// Restart kills the server, starts it again and waits until it serves.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.Launch()
	s.AwaitServing()
}

// Wipe removes all that a server that is down has stored, as a new disk would; it keeps its number.
func (s *Server) Wipe() {
	s.t.Helper()
	if s.process != nil {
		s.t.Fatalf("server %d is up", s.id)
	}
	if err := os.RemoveAll(filepath.Join(s.DataDir(), "version-2")); err != nil {
		s.t.Fatalf("wipe server %d: %v", s.id, err)
	}
}

// fourLetterTimeout bounds one exchange of a four-letter word.
const fourLetterTimeout = 2 * time.Second

// FourLetter sends a four-letter word and returns the answer.
func (s *Server) FourLetter(word string) (string, error) {
	nc, err := net.DialTimeout("tcp", s.addr, fourLetterTimeout)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(fourLetterTimeout))
	if _, err := nc.Write([]byte(word)); err != nil {
		return "", err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(nc)
	return b.String(), err
}

// Mode returns what the server is at the moment: "standalone", "leader", "follower" or "observer";
// empty if it does not serve.
func (s *Server) Mode() (string, error) {
	out, err := s.FourLetter("srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "Mode: "); ok {
			return mode, nil
		}
	}
	return "", nil
}

// Log returns all that the server has logged.
func (s *Server) Log() []byte {
	b, _ := os.ReadFile(s.logOut.Name())
	return b
}

// cleanup ends the server with its test.
func (s *Server) cleanup() {
	s.Kill()
	if s.t.Failed() {
		b := s.Log()
		s.t.Logf("end of the log of server %d (%s):\n%s", s.id, s.addr, b[max(0, len(b)-logTailBytes):])
	}
	s.close()
}

// close gives up what the server held besides its process.
func (s *Server) close() {
	for _, l := range s.links {
		l.close()
	}
	s.logOut.Close()
}
