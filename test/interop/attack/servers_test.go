package attack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

// target is a server under attack.
type target struct {
	addr, secure string // secure is empty if the server has no port with TLS
	process      *proc.Process
	log          string // file; empty for Apache ZooKeeper
}

// The settings of both servers. Nothing is synced: the disk is not what is measured.
var settings = map[string]string{"tickTime": "2000", "forceSync": "no", "maxClientCnxns": "60", "4lw.commands.whitelist": "srvr"}

// startOurs runs this repository's server as a process.
func startOurs(t *testing.T, binary string, more map[string]string) *target {
	t.Helper()
	dir := t.TempDir()
	ports, err := proc.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	s := &target{addr: fmt.Sprint("127.0.0.1:", ports[0]), secure: fmt.Sprint("127.0.0.1:", ports[1]), log: filepath.Join(dir, "log")}
	pem := filepath.Join(dir, "server.pem")
	writeCertificate(t, pem)
	config := map[string]string{
		"dataDir": filepath.Join(dir, "data"), "clientPort": fmt.Sprint(ports[0]), "clientPortAddress": "127.0.0.1",
		"secureClientPort": fmt.Sprint(ports[1]), "secureClientPortAddress": "127.0.0.1",
		"ssl.keyStore.location": pem, "ssl.trustStore.location": pem,
	}
	var b strings.Builder
	for _, m := range []map[string]string{config, settings, more} {
		for k, v := range m {
			fmt.Fprintf(&b, "%s=%s\n", k, v)
		}
	}
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "server", "--config", file)
	out, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if s.process, err = proc.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.process.Kill)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if nc, err := net.Dial("tcp", s.addr); err == nil {
			nc.Close()
			return s
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(s.log)
			t.Fatalf("the server does not listen:\n%s", log)
		}
	}
}

// startApache runs Apache ZooKeeper with the heap that its start script gives it.
func startApache(t *testing.T) *target {
	t.Helper()
	s := apache.Start(t, apache.Options{Tick: 2 * time.Second, Config: settings, Heap: "1000m"})
	return &target{addr: s.Addr(), process: s.Process()}
}

func (s *target) dead() bool {
	select {
	case <-s.process.Exited():
		return true
	default:
		return false
	}
}

// rss returns the resident memory of the process in bytes; 0 if it is gone.
func (s *target) rss() int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.PID()))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// killBeyond ends a server that would take the machine with it.
const killBeyond = 3 << 30

// watchMemory samples the resident memory until done is closed, and returns the peak. A server that takes more than
// killBeyond is killed, which counts as a crash.
func (s *target) watchMemory(wg *sync.WaitGroup, done <-chan struct{}, peak *int64) {
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			rss := s.rss()
			*peak = max(*peak, rss)
			if rss > killBeyond {
				s.process.Kill()
				return
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
}

// writeCertificate makes a certificate that vouches for itself, with its key, in one file.
func writeCertificate(t *testing.T, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	b = append(b, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
