package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What real members do is tested in test/interop/ensemble.

// filled returns the data directories of a server of ours that was restarted once, so that there are two logs.
func filled(t *testing.T, logDir string) Source {
	t.Helper()
	src := Source{Dir: filepath.Join(t.TempDir(), "source"), LogDir: logDir}
	for round := range 2 {
		srv := openServer(t, server.Options{DataDir: src.Dir, LogDir: logDir, PreAllocBytes: 1 << 20})
		s, stop := serve(t, srv)
		for i := range 3 {
			if _, err := s.Create(t.Context(), fmt.Sprintf("/n%d%d", round, i), []byte("data"), zk.Persistent, zk.OpenACL()); err != nil {
				t.Fatal(err)
			}
		}
		if round == 1 {
			if _, err := s.Create(t.Context(), "/container", nil, zk.Container, zk.OpenACL()); err != nil {
				t.Fatal(err)
			}
		}
		stop()
	}
	return src
}

func openServer(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	srv, err := server.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// serve runs a server until stop.
func serve(t *testing.T, srv *server.Server) (s *client.Session, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	s, err = client.Open(t.Context(), l.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		s.Close(context.WithoutCancel(t.Context()))
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, server.ErrClosed) {
			t.Error(err)
		}
	}
}

func silent(string) {}

func TestGrow(t *testing.T) {
	t.Parallel()
	for name, logs := range map[string]string{"together": "", "logs apart": filepath.Join(t.TempDir(), "logs")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := filled(t, logs)
			s := newSpec(t, FormatLocal, "127.0.0.1:1:2:3", "127.0.0.1:4:5:6", "127.0.0.1:7:8:9")
			p, err := Grow(t.Context(), s, src, silent)
			if err != nil {
				t.Fatal(err)
			}
			want, err := src.read(t.Context())
			if err != nil || want.Znodes != 11 || want.Passing != 1 || want.Newest != "/n12" || want != p.Content {
				t.Errorf("the source holds %+v, %v", want, err)
			}
			loaded, err := LoadPlan(s.Out)
			if err != nil || loaded.Content != p.Content {
				t.Fatal(loaded, err)
			}
			for _, m := range s.Members {
				dir := filepath.Join(s.Out, m.Folder())
				got, err := Source{Dir: filepath.Join(dir, "data")}.read(t.Context())
				if err != nil || got != want {
					t.Errorf("member %d holds %+v, %v", m.ID, got, err)
				}
				text, err := os.ReadFile(filepath.Join(dir, "zoo.cfg"))
				if err != nil || !strings.Contains(string(text), fmt.Sprintf("\nclientPort=%d\n", m.Client+closedOffset)) || !strings.Contains(string(text), "\ndb.autocreate=false\n") {
					t.Errorf("zoo.cfg of member %d: %v\n%s", m.ID, err, text)
				}
				if err := loaded.checkHome(t.Context(), m); err != nil {
					t.Error(err)
				}
			}
			if _, err := Grow(t.Context(), s, src, silent); err == nil || !strings.Contains(err.Error(), "--verify") {
				t.Errorf("a second Grow = %v", err)
			}
			if err := loaded.letIn(); err != nil {
				t.Fatal(err)
			}
			if _, err := Grow(t.Context(), s, src, silent); err == nil || strings.Contains(err.Error(), "remove") {
				t.Errorf("Grow over an ensemble that serves clients = %v", err)
			}
			text, err := os.ReadFile(filepath.Join(s.Out, "member3", "zoo.cfg"))
			if err != nil || !strings.Contains(string(text), "\nclientPort=7\n") {
				t.Errorf("zoo.cfg when clients are let in: %v\n%s", err, text)
			}
		})
	}
}

// Members that do not know znodes with a time to live delete them: the setting that counts, the last one, has to be true.
func TestZnodesWithATimeToLiveAreKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set    []string
		keeps  bool
		result string // the setting that counts
	}{
		{nil, true, "true"},
		{[]string{"extendedTypesEnabled=true"}, true, "true"},
		{[]string{"extendedTypesEnabled=TRUE"}, true, "TRUE"},
		{[]string{"zookeeper.extendedTypesEnabled=true"}, true, "true"},
		{[]string{"extendedTypesEnabled=false"}, false, ""},
		{[]string{"extendedTypesEnabled=true", "extendedTypesEnabled=false"}, false, ""},
		{[]string{"extendedTypesEnabled=false", "extendedTypesEnabled=true"}, true, "true"},
	} {
		set, err := ParseSet(c.set)
		if err != nil {
			t.Fatal(err)
		}
		p := &Plan{Spec: Spec{Set: set}, Content: Content{Timed: 1}}
		err = p.keepTimed(silent)
		if (err == nil) != c.keeps {
			t.Errorf("%q: %v", c.set, err)
		}
		last := p.Spec.Set[len(p.Spec.Set)-1]
		if c.keeps && last != [2]string{timedKey, c.result} {
			t.Errorf("%q: the last setting is %q", c.set, last)
		}
	}
}

func remove(t *testing.T, pattern string) {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) == 0 {
		t.Fatal(pattern, err)
	}
	for _, path := range all {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever is wrong, nothing is written, and the error says what to do.
func TestSourcesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, src *Source)
		words string
	}{
		"no directory":      {func(_ *testing.T, src *Source) { src.Dir += ".none" }, "no data directory"},
		"the wrong level":   {func(_ *testing.T, src *Source) { src.Dir = filepath.Join(src.Dir, versionName) }, "name the directory above"},
		"no snapshot":       {func(t *testing.T, src *Source) { remove(t, filepath.Join(src.Dir, versionName, "snapshot.*")) }, "no snapshot"},
		"a log is missing":  {func(t *testing.T, src *Source) { remove(t, filepath.Join(src.Dir, versionName, "log.1")) }, "missing"},
		"no logs":           {snapshotAlone, "--log-dir"},
		"no logs yet":       {func(t *testing.T, src *Source) { remove(t, filepath.Join(src.Dir, versionName, "log.*")) }, "--log-dir"},
		"half a snapshot":   {func(t *testing.T, src *Source) { halve(t, filepath.Join(src.Dir, versionName, "snapshot.*")) }, "snapshot"},
		"other log-dir":     {func(_ *testing.T, src *Source) { src.LogDir = src.Dir + ".logs" }, "no data directory"},
		"a server of ours":  {run, "a server is at work there"},
		"its process lives": {pid, "is at work there, as process"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := filled(t, "")
			tt.spoil(t, &src)
			s := newSpec(t, FormatSystemd, "a", "b", "c")
			if _, err := Grow(t.Context(), s, src, silent); err == nil || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("Grow = %v, want %q", err, tt.words)
			}
			for _, dir := range []string{s.Out, s.stage()} {
				if _, err := os.Stat(dir); err == nil {
					t.Errorf("%s is there", dir)
				}
			}
		})
	}
}

// snapshotAlone leaves a snapshot of everything, and no logs.
func snapshotAlone(t *testing.T, src *Source) {
	remove(t, filepath.Join(src.Dir, versionName, "snapshot.0"))
	srv := openServer(t, server.Options{DataDir: src.Dir, PreAllocBytes: 1 << 20, TrustEmpty: true})
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(src.Dir, versionName, "log.*"))
}

// A snapshot without logs, as of a backup, is a source if the caller says so.
func TestGrowFromASnapshot(t *testing.T) {
	t.Parallel()
	src := filled(t, "")
	snapshotAlone(t, &src)
	src.NoLogs = true
	p, err := Grow(t.Context(), newSpec(t, FormatSystemd, "a", "b", "c"), src, silent)
	if err != nil || p.Content.Znodes != 11 {
		t.Errorf("Grow = %+v, %v", p, err)
	}
}

// A log that breaks off, as a crash leaves it, is copied as far as it is whole, and the user is told.
func TestGrowFromATornLog(t *testing.T) {
	t.Parallel()
	src := filled(t, "")
	all, err := filepath.Glob(filepath.Join(src.Dir, versionName, "log.*"))
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	info, err := os.Stat(all[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(all[1], info.Size()-3); err != nil {
		t.Fatal(err)
	}
	var notes []string
	s := newSpec(t, FormatSystemd, "a", "b", "c")
	p, err := Grow(t.Context(), s, src, func(text string) { notes = append(notes, text) })
	if err != nil || p.Content.Cut == 0 || !strings.Contains(strings.Join(notes, "\n"), "breaks off") {
		t.Errorf("Grow = %+v, %v; notes %q", p, err, notes)
	}
}

// The source is not overwritten by a member's copy of it.
func TestGrowInPlace(t *testing.T) {
	t.Parallel()
	s, src := newSpec(t, FormatSystemd, "a", "b", "c"), filled(t, "")
	s.DataDir = src.Dir + "/"
	if _, err := Grow(t.Context(), s, src, silent); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("Grow = %v", err)
	}
}

func halve(t *testing.T, pattern string) {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) == 0 {
		t.Fatal(pattern, err)
	}
	for _, path := range all {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	}
}

// run has a server at work in a source until the end of the test.
func run(t *testing.T, src *Source) {
	srv := openServer(t, server.Options{DataDir: src.Dir, PreAllocBytes: 1 << 20})
	_, stop := serve(t, srv)
	t.Cleanup(stop)
}

// Growing that is interrupted leaves nothing, whether that comes while the source is read or while it is copied.
func TestGrowIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "while it is copied"} {
		s, src := newSpec(t, FormatLocal, "127.0.0.1:1:2:3", "127.0.0.1:4:5:6", "127.0.0.1:7:8:9"), filled(t, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupted := errors.New("interrupted")
		if when == "before" {
			cancel(interrupted)
		}
		_, err := Grow(ctx, s, src, func(string) { cancel(interrupted) }) // told once the source is read
		if !errors.Is(err, interrupted) {
			t.Errorf("%s: %v", when, err)
		}
		for _, dir := range []string{s.Out, s.stage()} {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s: %s is there", when, dir)
			}
		}
	}
}

// The place for the ensemble may be an empty directory, but none that would put the copies on another disk.
func TestPlacesForAnEnsemble(t *testing.T) {
	t.Parallel()
	s, src := newSpec(t, FormatLocal, "127.0.0.1:1:2:3", "127.0.0.1:4:5:6", "127.0.0.1:7:8:9"), filled(t, "")
	if err := os.Symlink(t.TempDir(), s.Out); err != nil {
		t.Fatal(err)
	}
	if _, err := Grow(t.Context(), s, src, silent); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("a link: %v", err)
	}
	if err := os.Remove(s.Out); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.Out, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Grow(t.Context(), s, src, silent); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
}
