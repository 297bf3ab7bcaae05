package ensemble

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

// binary is the command, which TestMain builds.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ensemble")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "lockkeeper")
	if err := proc.BuildCommand(binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return apache.Main(m)
}

// lockkeeper runs the command and returns what it prints, on both streams.
func lockkeeper(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(binary, args...).CombinedOutput()
	return string(out), err
}

// must runs the command, which has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := lockkeeper(t, args...)
	if err != nil {
		t.Fatalf("lockkeeper %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

const (
	startTimeout = 60 * time.Second // on a machine that is busy with other things
	pollInterval = 50 * time.Millisecond
)

// A member is a server that runs from a zoo.cfg.
type member struct {
	t       *testing.T
	config  string
	log     string
	process *proc.Process
}

// classPath is that of the commands that init prints, which the tests of init compare.
const classPath = "/usr/share/java/zookeeper.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar:/usr/share/java/servlet-api.jar:/usr/share/java/slf4j-simple.jar"

// start runs Apache ZooKeeper, and kills it at the end of the test.
func start(t *testing.T, config string) *member {
	t.Helper()
	m := &member{t: t, config: config, log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(m.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("/usr/bin/java", "-Xmx160m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData",
		"-Dzookeeper.jmx.log4j.disable=true", "-cp", classPath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	cmd.Stdout, cmd.Stderr = log, log
	if m.process, err = proc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.process.Kill()
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", config, m.tail())
		}
	})
	return m
}

// tail returns the end of the server's log.
func (m *member) tail() string {
	const tailBytes = 6 << 10
	b, _ := os.ReadFile(m.log)
	return string(b[max(0, len(b)-tailBytes):])
}

// awaitLog waits until the server has logged a text.
func (m *member) awaitLog(text string) {
	m.t.Helper()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(pollInterval) {
		b, err := os.ReadFile(m.log)
		switch {
		case err != nil:
			m.t.Fatal(err)
		case strings.Contains(string(b), text):
			return
		case time.Now().After(deadline):
			m.t.Fatalf("%s has not logged %q after %v", m.config, text, startTimeout)
		}
	}
}

// serves reports whether a server answers srvr with a mode.
func serves(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("srvr")); err != nil {
		return false
	}
	b := make([]byte, 4096)
	for n := 0; ; {
		more, err := c.Read(b[n:])
		n += more
		if strings.Contains(string(b[:n]), "\nMode: ") {
			return true
		}
		if err != nil {
			return false
		}
	}
}

func awaitServing(t *testing.T, addresses ...string) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for _, a := range addresses {
		for !serves(a) {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not serve after %v", a, startTimeout)
			}
			time.Sleep(pollInterval)
		}
	}
}

// hosts returns three members on this machine, as arguments, and their addresses for clients.
func hosts(t *testing.T) (args, addresses []string) {
	t.Helper()
	ports, err := proc.FreePorts(9)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // grow has another port beside that for clients, and both have to be free
		ports[3*i], err = freePair()
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, fmt.Sprintf("127.0.0.1:%d:%d:%d", ports[3*i], ports[3*i+1], ports[3*i+2]))
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", ports[3*i]))
	}
	return args, addresses
}

// freePair returns a port that is claimed, as the one is that grow uses until clients are let in.
func freePair() (int, error) {
	for {
		ports, err := proc.FreePorts(1)
		if err != nil {
			return 0, err
		}
		if other := closed(ports[0]); other <= proc.PortMax {
			if ok, err := proc.Claim(other); ok || err != nil {
				return ports[0], err
			}
		}
	}
}

// closed returns the port that grow uses until clients are let in.
func closed(port int) int {
	const offset, most = 10000, 65535
	if port+offset > most {
		return port - offset
	}
	return port + offset
}
