package localserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// shortDir returns a directory with a short path: a socket is below it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestAStateDirectoryThatOthersCanWriteToIsRefused(t *testing.T) {
	for mode, ok := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o775: false, 0o757: false, 0o777: false, 0o777 | os.ModeSticky: false} {
		p := Places{State: filepath.Join(t.TempDir(), "lockkeeper")}
		if err := p.makeState(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p.State, mode); err != nil {
			t.Fatal(err)
		}
		_, _, found := p.Find()
		for what, err := range map[string]error{"makeState": p.makeState(), "Find": found} {
			if refused := err != nil && strings.Contains(err.Error(), "other users can write to "+p.State); refused == ok {
				t.Errorf("%s with mode %v: %v", what, mode, err)
			}
		}
	}
}

// A link in place of a file would have another file written to.
func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	p := Places{State: filepath.Join(dir, "state")}
	if err := p.makeState(); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte(`{"socket":"/s"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{p.lock(), p.address(), p.Log()} {
		if err := os.Symlink(victim, path); err != nil {
			t.Fatal(err)
		}
	}
	_, read := p.read()
	_, locked := lockFile(context.Background(), p.lock())
	_, logged := openLog(p.Log())
	for what, err := range map[string]error{"address": read, "lock": locked, "log": logged} {
		if !errors.Is(err, syscall.ELOOP) {
			t.Errorf("a link in place of the %s: %v, want %v", what, err, syscall.ELOOP)
		}
	}
}

// Another user has made the runtime directory in the temporary directory. The socket is elsewhere then, and commands find it.
func TestARuntimeDirectoryThatAnotherUserHasMade(t *testing.T) {
	for name, state := range map[string]string{"in the state directory": "s", "in a new one": strings.Repeat("long", 25)} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			p, err := FindPlaces(func(key string) string {
				return map[string]string{"HOME": dir, "XDG_STATE_HOME": filepath.Join(dir, state), "TMPDIR": dir}[key]
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.makeState(); err != nil {
				t.Fatal(err)
			}
			theirs := filepath.Join(dir, "lockkeeper-"+strconv.Itoa(os.Getuid()))
			if err := os.Mkdir(theirs, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(theirs, 0o777); err != nil {
				t.Fatal(err)
			}
			l, err := p.listen()
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			at := filepath.Dir(l.Addr().String())
			if at == theirs || isPrivate(at) != nil {
				t.Errorf("listens in %s: %v", at, isPrivate(at))
			}
			if err := p.announce(l.Addr().String()); err != nil {
				t.Fatal(err)
			}
			c, _, err := p.Find()
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			l.Close()
			again, err := p.listen() // as after a restart
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if got := filepath.Dir(again.Addr().String()); got != at {
				t.Errorf("the next one listens in %s, want %s", got, at)
			}
		})
	}
}

// The log does not grow without end while a keeper runs, also if a command that starts another one has put it aside.
func TestTheLogIsRotatedWhileAKeeperRuns(t *testing.T) {
	p := Places{State: filepath.Join(t.TempDir(), "state")}
	if err := p.makeState(); err != nil {
		t.Fatal(err)
	}
	stdout, err := openLog(p.Log())
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	elsewhere, err := os.Create(filepath.Join(t.TempDir(), "terminal"))
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	write := func(text string, files ...*os.File) {
		t.Helper()
		for _, f := range files {
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.rotateLog(stdout, elsewhere); err != nil {
			t.Fatal(err)
		}
	}
	want := func(path, text string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%s has %d bytes (%v), want %d", path, len(b), err, len(text))
		}
	}
	long := strings.Repeat("x", logBytesMax)
	write("first\n", stdout, elsewhere)
	write("second\n", stdout)
	want(p.Log(), "first\nsecond\n")
	write(long, stdout, elsewhere)
	want(p.Log(), "")
	want(p.Log()+".old", "first\nsecond\n"+long)
	write("third\n", stdout)
	want(p.Log(), "third\n")
	want(elsewhere.Name(), "first\n"+long)

	// A command puts it aside.
	write(long[:10], stdout)
	if err := os.Rename(p.Log(), p.Log()+".old"); err != nil {
		t.Fatal(err)
	}
	write("fourth\n", stdout) // it goes to the old one still
	write("fifth\n", stdout)
	want(p.Log(), "fifth\n")
}
