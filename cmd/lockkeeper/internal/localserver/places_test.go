package localserver

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFindPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		env     map[string]string
		state   string
		runtime string // the first
	}{
		"all":       {map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"}, "/s/lockkeeper", "/r/lockkeeper"},
		"home":      {map[string]string{"HOME": "/h"}, "/h/.local/state/lockkeeper", "/tmp"},
		"relative":  {map[string]string{"HOME": "/h", "XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r", "TMPDIR": "t"}, "/h/.local/state/lockkeeper", "/tmp"},
		"temporary": {map[string]string{"HOME": "/h", "TMPDIR": "/t"}, "/h/.local/state/lockkeeper", "/t/lockkeeper-"},
		"nothing":   {nil, "", ""},
	} {
		p, err := FindPlaces(func(key string) string { return c.env[key] })
		if (err != nil) != (c.state == "") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (p.State != c.state || !strings.HasPrefix(p.Runtime[0], c.runtime)) {
			t.Errorf("%s: %+v, want state %s, runtime %s", name, p, c.state, c.runtime)
		}
	}
}

// In a directory that all users may write to, another user may have made the keeper's before.
func TestSocketOnlyInADirectoryOfOurOwn(t *testing.T) {
	dir := t.TempDir()
	open, link, file, good := filepath.Join(dir, "open"), filepath.Join(dir, "link"), filepath.Join(dir, "file"), filepath.Join(dir, "good")
	for _, err := range []error{
		os.Mkdir(open, 0o700), os.Chmod(open, 0o755), os.Symlink(open, link), os.WriteFile(file, nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	long := filepath.Join(dir, strings.Repeat("x", socketBytesMax))
	for _, bad := range []string{open, link, file, long, filepath.Join(dir, "no", "parent")} {
		if l, err := (Places{State: "/s", Runtime: []string{bad}}).listen(); err == nil {
			l.Close()
			t.Errorf("listens at %s, want an error", l.Addr())
		} else if !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
			t.Errorf("no advice in %q", err)
		}
	}
	if err := privateDir("/proc"); err == nil {
		t.Error("privateDir took /proc")
	}
	one, err := (Places{State: "/s", Runtime: []string{open, good}}).listen()
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if filepath.Dir(one.Addr().String()) != good {
		t.Errorf("listens at %s, want it in %s", one.Addr(), good)
	}
	two, err := (Places{State: "/other", Runtime: []string{good}}).listen()
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if one.Addr().String() == two.Addr().String() {
		t.Errorf("two keepers at one socket: %s", two.Addr())
	}
}

// A directory of ours that does not take a socket, as one that is mounted to be read only, is passed over.
func TestSocketWhereOneCanBeMade(t *testing.T) {
	dir := t.TempDir()
	p := Places{State: "/s", Runtime: []string{filepath.Join(dir, "bad"), filepath.Join(dir, "good")}}
	l, err := p.listen()
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().String()
	l.Close()
	if err := os.MkdirAll(filepath.Join(taken, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if l, err = p.listen(); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := filepath.Dir(l.Addr().String()); got != p.Runtime[1] {
		t.Errorf("listens in %s, want %s", got, p.Runtime[1])
	}
}

// Whose a state directory is, and where root would make one, decides whether it is used: what root has made in a user's
// home would be closed to the user.
func TestStateOnlyInAPlaceOfOurOwn(t *testing.T) {
	dir := t.TempDir()
	p := Places{State: filepath.Join(dir, "home", "state", "lockkeeper")}
	if err := p.makeState(); err != nil {
		t.Fatal(err)
	}
	if err := p.makeState(); err != nil {
		t.Error(err)
	}
	if os.Getuid() != 0 {
		if err := (Places{State: "/etc"}).makeState(); err == nil {
			t.Error("root's directory is used")
		}
		return
	}
	for _, theirs := range []string{p.State, filepath.Join(dir, "home")} {
		if err := os.Chown(theirs, 65534, -1); err != nil {
			t.Fatal(err)
		}
		if err := p.makeState(); err == nil || !strings.Contains(err.Error(), theirs+" belongs to user 65534") {
			t.Errorf("in %s of another user: %v", theirs, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "home", "state")); err != nil {
			t.Fatal(err)
		}
	}
}

// When the temporary directory has been emptied, another user may make what the keeper had there.
func TestASocketThatAnotherUserCanHavePutThereIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	p := Places{State: t.TempDir()}
	if err := p.write(Address{Socket: socket, Pid: 1, Host: host}); err != nil {
		t.Fatal(err)
	}
	c, _, err := p.Find()
	if err != nil {
		t.Fatalf("in a directory of our own: %v", err)
	}
	c.Close()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if c, _, err := p.Find(); err == nil {
		c.Close()
		t.Error("connected to a socket in a directory that is open to others")
	}
}

// Where a keeper's socket has been taken away, the next one may listen already.
func TestAKeeperThatHasLostItsPlaceLeavesItToTheNext(t *testing.T) {
	dir, err := os.MkdirTemp("", "lk") // short: a socket is below it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p := Places{State: filepath.Join(dir, "state"), Runtime: []string{filepath.Join(dir, "run")}}
	r, w := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), p, 0, w, slog.New(slog.DiscardHandler)) }()
	if text, err := io.ReadAll(r); err != nil || string(text) != readyWord+"\n" {
		t.Fatalf("the keeper says %q, %v", text, err)
	}
	a, err := p.read()
	if err != nil {
		t.Fatal(err)
	}
	socket := a.Socket
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	next, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatalf("the next one's socket: %v", err)
	}
	c.Close()
}

func TestLockFileHasOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lockFile(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if f, err := lockFile(ctx, path); err == nil {
		f.Close()
		t.Error("two holders of a file lock")
	}
	first.Close()
	second, err := lockFile(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

func TestAddressOfAnotherHostIsNotUsed(t *testing.T) {
	p := Places{State: t.TempDir()}
	if _, _, err := p.Find(); err == nil {
		t.Error("found a keeper that never was")
	}
	if err := p.write(Address{Socket: "/r/s", Pid: 1, Host: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	if _, a, err := p.Find(); err == nil || a.Host != "elsewhere" || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("Find = %+v, %v", a, err)
	}
	if !p.IsSocket("/r/s") || !p.IsSocket("/before/s") || p.IsSocket("/r/t") {
		t.Error("IsSocket")
	}
}
