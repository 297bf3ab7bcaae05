package ensemble

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// An ensemble with TLS starts from what init writes, serves clients with a certificate, refuses those without, and each member has used
// up its permission to begin empty.
func TestInit(t *testing.T) {
	t.Parallel()
	args, addresses := hosts(t)
	out := filepath.Join(t.TempDir(), "ensemble")
	said := must(t, append([]string{"ensemble", "init", "--format=local", "--tls", "--out=" + out, "--set=tickTime=500", "--set=admin.enableServer=false"}, args...)...)
	if !strings.Contains(said, "java -Xmx1g -cp "+classPath+" ") {
		t.Errorf("these tests have another class path than what init prints:\n%s", said)
	}
	for _, id := range []string{"1", "2", "3"} {
		start(t, filepath.Join(out, "member"+id, "zoo.cfg")).awaitLog("Using TLS encrypted quorum communication")
	}
	servers := strings.Join(addresses, ",")
	with := []string{"--servers=" + servers, "--tls-ca=" + filepath.Join(out, "tls", "ca.pem"), "--tls-cert=" + filepath.Join(out, "tls", "client.pem")}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(pollInterval) {
		status, err := lockkeeper(t, append([]string{"status"}, with...)...)
		if err == nil && strings.Contains(status, "leader") && strings.Count(status, "follower") == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the members do not serve: %v\n%s", err, status)
		}
	}
	must(t, append([]string{"z", "create", "/a", "text"}, with...)...)
	if got := must(t, append([]string{"z", "get", "/a"}, with...)...); !strings.Contains(got, "text") {
		t.Errorf("get prints %q", got)
	}
	if out, err := lockkeeper(t, "z", "get", "/a", "--connect-timeout=2s", with[0], with[1]); err == nil {
		t.Errorf("a client without a certificate is served: %s", out)
	}
	// Once the root is closed, nothing is left for doctor to warn of, but that the machine is slow.
	must(t, append([]string{"z", "acl", "set", "/", "world:anyone:r"}, with...)...)
	doctor := append([]string{"doctor", "--json", "--admin-port=0", "--config=" + filepath.Join(out, "member1", "zoo.cfg")}, with...)
	printed, err := exec.Command(binary, doctor...).Output() // whose status says the same
	var findings []struct{ Severity, Check, Evidence string }
	if json.Unmarshal(printed, &findings) != nil || len(findings) == 0 {
		t.Fatalf("doctor --json: %v\n%s", err, printed)
	}
	for _, f := range findings {
		if f.Severity != "note" && !slices.Contains([]string{"latency", "fsync", "initlimit"}, f.Check) {
			t.Errorf("doctor of what init has made: %s: %s: %s", f.Severity, f.Check, f.Evidence)
		}
	}
	for _, id := range []string{"1", "2", "3"} {
		if _, err := os.Stat(filepath.Join(out, "member"+id, "data", "initialize")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("member %s: initialize: %v", id, err)
		}
	}
}
