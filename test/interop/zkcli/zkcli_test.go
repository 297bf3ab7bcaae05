package zkcli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

// zkCli is the real one.
var zkCli = []string{"/usr/bin/java", "-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
	"-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "org.apache.zookeeper.ZooKeeperMain"}

// A transcript is what a run has printed.
type transcript struct {
	out, messages []string // standard output without events, and standard error
	events        []string // in no order: they are printed beside the rest
	status        int
}

func run(t *testing.T, command []string, server, script string, words ...string) (tr transcript) {
	t.Helper()
	cmd := exec.Command(command[0], append(append(command[1:len(command):len(command)], "-server", server), words...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "HOME="+t.TempDir())
	cmd.Stdin = strings.NewReader(script)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	tr.status = cmd.ProcessState.ExitCode()
	tr.messages = lines(messages.String(), server)
	text := strings.ReplaceAll(out.String(), "\nWATCHER::\n", "")
	tr.events = lines(strings.Join(event.FindAllString(text, -1), ""), server)
	slices.Sort(tr.events)
	for _, line := range lines(event.ReplaceAllString(text, ""), server) {
		if line != "" {
			tr.out = append(tr.out, line)
		}
	}
	return tr
}

// event is what is printed of an event: it may come in the middle of a line, since zkCli prints it in a thread of its own.
var event = regexp.MustCompile("\nWatchedEvent .*\n")

// passing is what differs from one run to the next.
var passing = regexp.MustCompile(`0x[0-9a-f]+|(?:[cm]time = ).*`)

func lines(text, server string) []string {
	text = strings.ReplaceAll(passing.ReplaceAllString(text, "…"), server, "SERVER")
	return strings.Split(strings.TrimRight(text, "\n"), "\n")
}

func compare(t *testing.T, what string, theirs, ours []string) {
	t.Helper()
	for i := range max(len(theirs), len(ours)) {
		a, b := "(nothing)", "(nothing)"
		if i < len(theirs) {
			a = theirs[i]
		}
		if i < len(ours) {
			b = ours[i]
		}
		if a != b {
			t.Errorf("%s, line %d: zkCli prints\n%s\nand lockkeeper zkcli\n%s", what, i+1, a, b)
			t.Logf("zkCli:\n%s\nlockkeeper zkcli:\n%s", strings.Join(theirs, "\n"), strings.Join(ours, "\n"))
			return
		}
	}
}

// Each gets a server of its own with nothing in it, so that even the numbers are the same.
func TestZkcliAnswersAsZkCli(t *testing.T) {
	lockkeeper := filepath.Join(t.TempDir(), "lockkeeper")
	if err := proc.BuildCommand(lockkeeper); err != nil {
		t.Fatal(err)
	}
	mine := []string{lockkeeper, "zkcli"}
	for _, name := range []string{"verbs", "options"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			options := apache.Options{Properties: map[string]string{"zookeeper.extendedTypesEnabled": "true"}}
			first, second := apache.Start(t, options), apache.Start(t, options)
			theirs, ours := run(t, zkCli, first.Addr(), string(script)), run(t, mine, second.Addr(), string(script))
			if len(theirs.out) < 20 || len(theirs.messages) < 10 {
				t.Fatalf("zkCli has hardly answered: %q %q", theirs.out, theirs.messages)
			}
			compare(t, "standard output", theirs.out, ours.out)
			compare(t, "standard error", theirs.messages, ours.messages)
			compare(t, "events", theirs.events, ours.events)
			if theirs.status != ours.status {
				t.Errorf("zkCli exits with %d, and lockkeeper zkcli with %d", theirs.status, ours.status)
			}
			for _, script := range []string{"ls /nope\n", "frob\n\nquit\n", "ls /nope\nredo 9\nclose\nls /\n"} {
				if name != "verbs" {
					break
				}
				theirs, ours := run(t, zkCli, first.Addr(), script), run(t, mine, second.Addr(), script)
				if theirs.status != ours.status {
					t.Errorf("%q: zkCli exits with %d, and lockkeeper zkcli with %d", script, theirs.status, ours.status)
				}
			}
			for _, command := range []string{"ls /nope", "frob", "ls /zookeeper"} {
				words := strings.Fields(command)
				theirs, ours := run(t, zkCli, first.Addr(), "", words...), run(t, mine, second.Addr(), "", words...)
				compare(t, command, theirs.out, ours.out)
				if theirs.status != ours.status {
					t.Errorf("%s: zkCli exits with %d, and lockkeeper zkcli with %d", command, theirs.status, ours.status)
				}
				if name != "verbs" {
					break // a JVM takes its time
				}
			}
		})
	}
}
