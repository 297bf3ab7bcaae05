package tour

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

// A step is a command of the page with what it prints.
type step struct {
	command string
	prints  []string
}

// steps reads the console blocks of the page.
func steps(t *testing.T) (all []step) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/zookeeper-tour.md")
	if err != nil {
		t.Fatal(err)
	}
	in := false
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(line, "\n")
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case line == "```console":
			in = true
		case line == "```":
			in = false
		case in && is:
			all = append(all, step{command: command})
		case in:
			all[len(all)-1].prints = append(all[len(all)-1].prints, line)
		}
	}
	return all
}

// The commands of the page print what the page says, on a local server of ours and on an ensemble of Apache's.
func TestTour(t *testing.T) {
	dir, err := os.MkdirTemp("", "tour") // short: a socket is below it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := proc.BuildCommand(filepath.Join(dir, "lockkeeper")); err != nil {
		t.Fatal(err)
	}
	ensemble := apache.StartEnsemble(t, 3, apache.Options{})
	var names []string
	for i, s := range ensemble.Servers {
		names = append(names, fmt.Sprintf("zk%d:2181", i+1), s.Addr())
	}
	addresses := strings.NewReplacer(names...)
	all := steps(t)
	if len(all) < 20 {
		t.Fatalf("this test sees %d commands", len(all))
	}
	env := append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_RUNTIME_DIR="+dir, "LOCKKEEPER_KEEPER_IDLE=1m")
	env = append(env, "LOCKKEEPER_SERVERS=local")
	// The first command starts the local server, and says so.
	start := exec.Command(filepath.Join(dir, "lockkeeper"), "z", "ls", "/")
	start.Env = env
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer stopKeeper(t, filepath.Join(dir, "state", "lockkeeper", "keeper.json"))
	for _, s := range all {
		command := addresses.Replace(s.command)
		if set, is := strings.CutPrefix(command, "export "); is {
			env = append(env, set)
			continue
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = env
		out, _ := cmd.CombinedOutput() // some fail, and say why
		got := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
		if len(out) == 0 {
			got = nil
		}
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(strings.Join(s.prints, "\n")), "…", ".*") + "$")
		if !want.MatchString(strings.Join(got, "\n")) {
			t.Errorf("$ %s\nprints\n%s\nand the page says\n%s", s.command, strings.Join(got, "\n"), strings.Join(s.prints, "\n"))
		}
	}
	// A server that is down is what doctor is for.
	ensemble.Followers()[0].Kill()
	sick := exec.Command(filepath.Join(dir, "lockkeeper"), "doctor", ensemble.Connect())
	sick.Env = env
	out, _ := sick.CombinedOutput()
	if status := sick.ProcessState.ExitCode(); status != 2 || !strings.HasPrefix(string(out), "critical") || !strings.Contains(string(out), "it does not answer") {
		t.Errorf("doctor of an ensemble with a server down: exit status %d, and\n%s", status, out)
	}
}

// stopKeeper ends the local server.
func stopKeeper(t *testing.T, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	var keeper struct{ Pid int }
	if err := json.Unmarshal(b, &keeper); err != nil || keeper.Pid <= 1 {
		t.Errorf("%s: %v", b, err)
		return
	}
	if err := syscall.Kill(keeper.Pid, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
