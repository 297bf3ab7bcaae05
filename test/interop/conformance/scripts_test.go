package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/interop/conformance/script"
)

var show = flag.Bool("show", false, "log everything that the servers send")

// The scripts of each folder are for servers with settings of their own.
func TestScripts(t *testing.T) {
	used := map[string]bool{}
	for _, tt := range []struct {
		dir string
		settings
	}{
		{"testdata", settings{}},
		{"testdata/extended", settings{extended: true}},
		{"testdata/reaped", settings{extended: true, reaping: true}},
		{"testdata/reconfig", settings{reconfig: true}},
		{"testdata/edges", settings{seed: edges(t)}},
	} {
		players := start(t, tt.settings)
		files, err := filepath.Glob(filepath.Join(tt.dir, "*.txt"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no scripts in %s: %v", tt.dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cases, err := script.Parse(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for i := range cases {
				c := &cases[i]
				t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+c.Name, func(t *testing.T) {
					m, err := play(players, c)
					if tt.reaping {
						m.forgetZxids()
					}
					report(t, file, &m)
					if err != nil {
						t.Fatal(err)
					}
				})
				for _, s := range c.Steps {
					used[s.Differs] = true
				}
			}
		}
	}
	for _, d := range differences {
		if !used[d.name] && flag.Lookup("test.run").Value.String() == "" {
			t.Errorf("no script shows the difference %q", d.name)
		}
	}
}

// report says what is wrong with a match.
func report(t *testing.T, file string, m *match) {
	t.Helper()
	for i := range m.steps {
		s := &m.steps[i]
		if why := s.verdict(); why != "" {
			t.Errorf("%s:%d: %s\n%s\n  Apache: %s\n  ours:   %s", file, s.step.Line, s.step.Text, why, indent(s.apache), indent(s.ours))
		} else if *show {
			t.Logf("%s\n          %s", s.step.Text, indent(s.ours))
		}
		if z := eventZxids(s.ours); !slices.IsSorted(z) || len(z) > 0 && z[0] <= 0 {
			t.Errorf("%s:%d: %s\nevents of the transactions %d", file, s.step.Line, s.step.Text, z)
		}
	}
}

func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n          ") }
