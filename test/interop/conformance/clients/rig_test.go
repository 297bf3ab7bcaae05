package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/ours"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

// clientTimeout bounds what a client does to one server.
const clientTimeout = 2 * time.Minute

// sameOnBoth has use do the same to Apache ZooKeeper and to our server, and fails unless it returns
// the same, which tidy may first rid of what differs from run to run. It returns that.
func sameOnBoth(t *testing.T, tidy func(string) string, use func(addr string) (string, error)) string {
	t.Helper()
	a := apache.Start(t, apache.Options{Tick: ours.Tick, Properties: map[string]string{"zookeeper.extendedTypesEnabled": "true"}})
	o := ours.Start(t, server.Options{ExtendedTypes: true})
	var said [2]string
	var errs [2]error
	var wg sync.WaitGroup
	for i, addr := range []string{a.Addr(), o.Addr()} {
		wg.Go(func() { said[i], errs[i] = use(addr) })
	}
	wg.Wait()
	for i, name := range []string{"Apache ZooKeeper", "our server"} {
		if errs[i] != nil {
			t.Errorf("on %s: %v\n%s", name, errs[i], said[i])
		}
		said[i] = tidy(said[i])
	}
	if diff := firstDifference(said[0], said[1]); diff != "" {
		t.Error(diff)
	}
	return said[1]
}

// firstDifference compares two texts line by line.
func firstDifference(apache, ours string) string {
	a, o := strings.Split(apache, "\n"), strings.Split(ours, "\n")
	for i := range max(len(a), len(o)) {
		la, lo := "(end)", "(end)"
		if i < len(a) {
			la = a[i]
		}
		if i < len(o) {
			lo = o[i]
		}
		if la != lo {
			before := strings.Join(o[max(0, i-8):min(i, len(o))], "\n  ")
			return fmt.Sprintf("line %d differs, after\n  %s\nApache: %s\nours:   %s", i+1, before, la, lo)
		}
	}
	return ""
}

// run runs a command with lines on its standard input and returns what it says on both its outputs.
func run(t *testing.T, stdin string, command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "JVMFLAGS=-Xmx160m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// replacer returns a function that replaces pairs of patterns and texts.
func replacer(pairs ...string) func(string) string {
	return func(s string) string {
		for i := 0; i < len(pairs); i += 2 {
			s = regexp.MustCompile(pairs[i]).ReplaceAllString(s, pairs[i+1])
		}
		return s
	}
}

// mustSay fails unless all of the texts are among what was said, lest two failures be equal.
func mustSay(t *testing.T, said string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("no client said %q:\n%s", w, said)
		}
	}
}
