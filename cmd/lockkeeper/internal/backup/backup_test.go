package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve runs a server on a data directory until stop, and returns a session with it.
func serve(t testing.TB, o server.Options) (s *client.Session, stop func()) {
	t.Helper()
	o.PreAllocBytes, o.TickTime = 1<<20, 300*time.Millisecond
	srv, err := server.Open(o)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	s, err = client.Open(t.Context(), l.Addr().String(), client.Options{})
	must(t, err)
	return s, func() {
		t.Helper()
		s.Close(context.WithoutCancel(t.Context()))
		must(t, srv.Close())
		if err := <-served; !errors.Is(err, server.ErrClosed) {
			t.Error(err)
		}
	}
}

// filled returns a data directory of a server that was stopped, with n znodes below /app.
func filled(t testing.TB, o server.Options, n int) string {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = filepath.Join(t.TempDir(), "data")
	}
	s, stop := serve(t, o)
	_, err := s.Create(t.Context(), "/app", nil, zk.Persistent, zk.OpenACL())
	must(t, err)
	for i := range n {
		_, err := s.Create(t.Context(), fmt.Sprintf("/app/n%05d", i), []byte("data"), zk.Persistent, zk.OpenACL())
		must(t, err)
	}
	stop()
	return o.DataDir
}

// children returns the names below /app that a server finds in a directory.
func children(t testing.TB, o server.Options) []string {
	t.Helper()
	s, stop := serve(t, o)
	defer stop()
	names, _, err := s.Children(t.Context(), "/app")
	must(t, err)
	return names
}

// snapshotAgain puts a snapshot of everything in place of the first one.
func snapshotAgain(t testing.TB, o server.Options) {
	t.Helper()
	must(t, os.Remove(filepath.Join(o.DataDir, versionDir, "snapshot.0")))
	o.TrustEmpty = true
	_, stop := serve(t, o)
	stop()
}

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := filled(t, server.Options{}, 20)
	to := filepath.Join(t.TempDir(), "backups")
	path, m, err := Make(t.Context(), DataDir{Dir: dir}, to)
	must(t, err)
	if m.Znodes != 25 || m.Zxid < 22 || !m.has(secretName) || m.Source != dir { // /, /zookeeper, its quota and config, /app
		t.Errorf("the manifest says %+v", m)
	}
	if again, err := Check(t.Context(), path); err != nil || again.Content != m.Content {
		t.Errorf("Check = %+v, %v", again, err)
	}
	target := filepath.Join(t.TempDir(), "below", "new")
	must(t, os.MkdirAll(target, 0o700))
	owner := os.Geteuid()
	if owner == 0 { // what root restores is for the server's user, whose directory it is
		owner = 4711
		must(t, os.Chown(target, owner, owner))
	}
	_, err = Restore(t.Context(), path, target, "")
	must(t, err)
	must(t, filepath.WalkDir(target, func(path string, _ fs.DirEntry, err error) error {
		must(t, err)
		info, err := os.Lstat(path)
		must(t, err)
		if is := int(info.Sys().(*syscall.Stat_t).Uid); is != owner {
			t.Errorf("%s belongs to %d, want %d", path, is, owner)
		}
		return nil
	}))
	was, err := os.ReadFile(filepath.Join(dir, secretName))
	must(t, err)
	is, err := os.ReadFile(filepath.Join(target, secretName))
	if err != nil || string(is) != string(was) {
		t.Errorf("the secret of the sessions: %v", err)
	}
	if got := children(t, server.Options{DataDir: target}); len(got) != 20 {
		t.Errorf("restored: %q", got)
	}
}

// Snapshots and logs may be apart, before and behind.
func TestLogsApart(t *testing.T) {
	t.Parallel()
	o := server.Options{DataDir: filepath.Join(t.TempDir(), "data"), LogDir: filepath.Join(t.TempDir(), "logs")}
	filled(t, o, 5)
	backups := t.TempDir()
	for range 2 { // first with the empty snapshot that a server begins with
		if _, _, err := Make(t.Context(), DataDir{Dir: o.DataDir}, backups); err == nil || !strings.Contains(err.Error(), "dataLogDir") {
			t.Errorf("a backup without the logs: %v", err)
		}
		if _, err := os.Stat(filepath.Join(o.DataDir, versionDir, "snapshot.0")); err == nil {
			snapshotAgain(t, o)
		}
	}
	path, _, err := Make(t.Context(), DataDir{Dir: o.DataDir, LogDir: o.LogDir}, backups)
	must(t, err)
	to := server.Options{DataDir: filepath.Join(t.TempDir(), "data"), LogDir: filepath.Join(t.TempDir(), "logs")}
	_, err = Restore(t.Context(), path, to.DataDir, to.LogDir)
	must(t, err)
	if got := children(t, to); len(got) != 5 {
		t.Errorf("restored: %q", got)
	}
	for _, logs := range []string{"logs", "below/logs", "link", ".."} { // one within the other
		to.DataDir = filepath.Join(t.TempDir(), "data")
		to.LogDir = filepath.Join(to.DataDir, logs)
		must(t, os.Mkdir(to.DataDir, 0o700))
		if logs == "link" {
			must(t, os.Symlink(t.TempDir(), to.LogDir))
		}
		_, err = Restore(t.Context(), path, to.DataDir, to.LogDir)
		if err != nil {
			t.Errorf("logs in %s: %v", logs, err)
			continue
		}
		if got := children(t, to); len(got) != 5 {
			t.Errorf("logs in %s: restored: %q", logs, got)
		}
		_, err = Restore(t.Context(), path, to.DataDir, to.LogDir)
		if err == nil || !strings.Contains(err.Error(), "holds data") {
			t.Errorf("logs in %s, once more: %v", logs, err)
		}
	}
}

// A backup of a server that works is a prefix of what was acknowledged, with all that was acknowledged before.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	o := server.Options{DataDir: t.TempDir(), SnapCount: 300, SnapRetain: 3}
	s, stop := serve(t, o)
	_, err := s.Create(t.Context(), "/app", nil, zk.Persistent, zk.OpenACL())
	must(t, err)
	var asked, acknowledged atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := int64(0); ctx.Err() == nil; i++ {
			asked.Store(i + 1)
			if _, err := s.Create(ctx, fmt.Sprintf("/app/n%07d", i), []byte(strings.Repeat("x", 500)), zk.Persistent, zk.OpenACL()); err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			acknowledged.Store(i + 1)
		}
	}()
	backups := t.TempDir()
	last := int64(0)
	for range 4 {
		for acknowledged.Load() < last+500 && ctx.Err() == nil { // some way on
			time.Sleep(time.Millisecond)
		}
		least := acknowledged.Load()
		path, m, err := Make(t.Context(), DataDir{Dir: o.DataDir}, backups)
		most := asked.Load()
		must(t, err)
		target := filepath.Join(t.TempDir(), "restored")
		_, err = Restore(t.Context(), path, target, "")
		must(t, err)
		got := children(t, server.Options{DataDir: target})
		last = int64(len(got))
		if last < least || last > most {
			t.Errorf("%d znodes are restored; %d were acknowledged before, and %d asked for", last, least, most)
		}
		there := map[string]bool{}
		for _, name := range got {
			there[name] = true
		}
		for i := range last {
			if !there[fmt.Sprintf("n%07d", i)] {
				t.Fatalf("%d znodes are restored (zxid %v), and n%07d is missing: no prefix", last, m.Zxid, i)
			}
		}
	}
	cancel()
	<-ended
	stop()
	if _, err := os.Stat(filepath.Join(o.DataDir, versionDir, "snapshot.0")); err == nil {
		t.Error("the server has purged nothing: the load was too small for this test")
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	good, _, err := Make(t.Context(), DataDir{Dir: filled(t, server.Options{}, 3)}, t.TempDir())
	must(t, err)
	m, err := readManifest(good)
	must(t, err)
	log := m.Files[len(m.Files)-2].Path
	change := func(f func(m *Manifest)) func(dir string) error {
		return func(dir string) error {
			m, err := readManifest(dir)
			must(t, err)
			f(m)
			b, err := json.Marshal(m)
			must(t, err)
			return os.WriteFile(filepath.Join(dir, manifestName), b, filePerm)
		}
	}
	for name, tt := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"no manifest":   {func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }, "not finished"},
		"half a file":   {func(dir string) error { return os.Truncate(filepath.Join(dir, log), 20) }, log + ": it has 20 bytes"},
		"missing file":  {func(dir string) error { return os.Remove(filepath.Join(dir, log)) }, log + ": it is in manifest.json and is missing"},
		"one more file": {func(dir string) error { return os.WriteFile(filepath.Join(dir, versionDir, "log.99"), nil, filePerm) }, "log.99 is not in manifest.json"},
		"newer format":  {change(func(m *Manifest) { m.Format = 9 }), "format 9"},
		"leads out":     {change(func(m *Manifest) { m.Files[0].Path = "../etc/passwd" }), "leads out"},
		"another file":  {change(func(m *Manifest) { m.Files[0].Path = "myid" }), `"myid" is no log, no snapshot`},
		"another log":   {change(func(m *Manifest) { m.Files[0].Path = versionDir + "/evil.sh" }), "evil.sh"},
		"named twice":   {change(func(m *Manifest) { m.Files = append(m.Files, m.Files[0]) }), "is named twice"},
		"one above": {func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "20260101T000000Z"), dirPerm), os.Rename(filepath.Join(dir, manifestName), filepath.Join(dir, "20260101T000000Z", manifestName)))
		}, "the last one by name is"},
		"other count":  {change(func(m *Manifest) { m.Znodes++ }), "a server finds"},
		"other zxid":   {change(func(m *Manifest) { m.Zxid++ }), "a server finds"},
		"no JSON":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, manifestName), []byte("{"), filePerm) }, "unexpected end"},
		"no directory": {os.RemoveAll, "no backup"},
		"other sum":    {change(func(m *Manifest) { m.Files[0].SHA256 = "00" }), "SHA-256"},
		"a pipe": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, log)), syscall.Mkfifo(filepath.Join(dir, log), filePerm))
		}, log + ": is not a regular file"},
		"unreadable log": {func(dir string) error { return os.Remove(filepath.Join(dir, versionDir, "snapshot.0")) }, "is missing"},
		"one bit of the log": {func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, log))
			must(t, err)
			b[len(b)/2] ^= 1
			return os.WriteFile(filepath.Join(dir, log), b, filePerm)
		}, log + ": its SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "backup")
			must(t, os.CopyFS(dir, os.DirFS(good)))
			must(t, tt.spoil(dir))
			target := filepath.Join(t.TempDir(), "target")
			_, err := Restore(t.Context(), dir, target, "")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Restore: %v, want %q", err, tt.want)
			}
			if _, err := os.Stat(target); err == nil {
				t.Error("the target was left behind")
			}
			if _, err := Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check: %v, want %q", err, tt.want)
			}
		})
	}
	for name, tt := range map[string]struct {
		file, want string
	}{
		"data":               {"version-2/snapshot.0", "holds data"},
		"something else":     {"notes.txt", "notes.txt away"},
		"a restore cut off":  {restoringName + "/version-2/log.1", "cut off"},
		"what may be there":  {"myid", ""},
		"an empty version-2": {"version-2/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			target := t.TempDir()
			path := filepath.Join(target, tt.file)
			must(t, os.MkdirAll(filepath.Dir(path), dirPerm))
			if strings.HasSuffix(tt.file, "/") {
				must(t, os.MkdirAll(path, dirPerm))
			} else {
				must(t, os.WriteFile(path, []byte("1"), filePerm))
			}
			_, err := Restore(t.Context(), good, target, "")
			if tt.want == "" {
				must(t, err)
				if got := children(t, server.Options{DataDir: target}); len(got) != 3 {
					t.Errorf("restored: %q", got)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Restore: %v, want %q", err, tt.want)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "1" {
				t.Errorf("what was there is %q, %v", b, err)
			}
		})
	}
}

// What is restored takes the place of version-2. In that of a link it would be on another disk, and that of a mount point cannot be taken.
func TestRestoreReplacesNoLinkAndNoMountPoint(t *testing.T) {
	t.Parallel()
	good, _, err := Make(t.Context(), DataDir{Dir: filled(t, server.Options{}, 3)}, t.TempDir())
	must(t, err)
	target := t.TempDir()
	must(t, os.Symlink(t.TempDir(), filepath.Join(target, versionDir)))
	_, err = Restore(t.Context(), good, target, "")
	if err == nil || !strings.Contains(err.Error(), "is a symbolic link or a mount point") {
		t.Errorf("Restore beside a link: %v", err)
	}
	if left, err := os.ReadDir(target); err != nil || len(left) != 1 || left[0].Type() != fs.ModeSymlink {
		t.Errorf("left: %v, %v", left, err)
	}
	for path, want := range map[string]bool{t.TempDir(): false, "/dev": true} {
		if got, err := elsewhere(path); err != nil || got != want {
			t.Errorf("%s is a link or a mount point: %v, %v; want %v", path, got, err, want)
		}
	}
}

// A server and a restore have a directory one at a time: a restore asks for nothing to be moved away from a server that works.
func TestRestoreBesideAServer(t *testing.T) {
	t.Parallel()
	good, _, err := Make(t.Context(), DataDir{Dir: filled(t, server.Options{}, 3)}, t.TempDir())
	must(t, err)
	target := t.TempDir()
	_, stop := serve(t, server.Options{DataDir: target})
	defer stop()
	if _, err := Restore(t.Context(), good, target, ""); err == nil || !strings.Contains(err.Error(), "at work there") {
		t.Errorf("a restore beside a server: %v", err)
	}
}

// One of several restores into a directory at a time succeeds. The others leave its files alone, and ask for no deletion of them.
func TestRestoresAtTheSameTime(t *testing.T) {
	t.Parallel()
	good, _, err := Make(t.Context(), DataDir{Dir: filled(t, server.Options{}, 3)}, t.TempDir())
	must(t, err)
	for range 20 {
		target := filepath.Join(t.TempDir(), "target")
		errs := make(chan error)
		for range 4 {
			go func() {
				_, err := Restore(t.Context(), good, target, "")
				errs <- err
			}()
		}
		done := 0
		for range 4 {
			switch err := <-errs; {
			case err == nil:
				done++
			case !strings.Contains(err.Error(), "another restore is at work") && !strings.Contains(err.Error(), "holds data"):
				t.Errorf("a restore beside others: %v", err)
			}
		}
		if done != 1 {
			t.Errorf("%d of 4 restores have succeeded, want 1", done)
		}
		if got := children(t, server.Options{DataDir: target}); len(got) != 3 {
			t.Errorf("restored: %q", got)
		}
	}
}

func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	backups := t.TempDir()
	damaged := filled(t, server.Options{}, 3)
	logs, err := filepath.Glob(filepath.Join(damaged, versionDir, "log.*"))
	must(t, err)
	b, err := os.ReadFile(logs[0])
	must(t, err)
	b[60] ^= 1
	must(t, os.WriteFile(logs[0], b, filePerm))
	for dir, want := range map[string]string{t.TempDir(): "no data directory", damaged: filepath.Base(logs[0])} {
		if _, _, err := Make(t.Context(), DataDir{Dir: dir}, backups); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Make of %s: %v, want %q", dir, err, want)
		}
	}
	if left, err := os.ReadDir(backups); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// All ends with the context, and leaves nothing.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	src := DataDir{Dir: filled(t, server.Options{}, 3)}
	good, _, err := Make(t.Context(), src, t.TempDir())
	must(t, err)
	why := errors.New("^C")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	backups, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if _, _, err := Make(ctx, src, backups); !errors.Is(err, why) {
		t.Errorf("Make: %v", err)
	}
	if left, err := os.ReadDir(backups); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := Check(ctx, good); !errors.Is(err, why) {
		t.Errorf("Check: %v", err)
	}
	if _, err := Restore(ctx, good, target, ""); !errors.Is(err, why) {
		t.Errorf("Restore: %v", err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("the target was left behind")
	}
}

// Machines that share a directory for backups have data directories of the same name.
func TestKeepLeavesOtherMachinesAlone(t *testing.T) {
	t.Parallel()
	backups, src := t.TempDir(), DataDir{Dir: filled(t, server.Options{}, 1)}
	var newest time.Time
	var last string
	for _, host := range []string{"elsewhere.example.org", "", "ours", "ours"} {
		path, m, err := Make(t.Context(), src, backups)
		must(t, err)
		newest, last = m.Made, path
		if own, err := os.Hostname(); err != nil || m.Host != own {
			t.Errorf("the manifest names the host %q, want %q (%v)", m.Host, own, err)
		}
		if host == "ours" {
			continue
		}
		m.Host = host // empty: as an older program has written it
		must(t, os.Remove(filepath.Join(path, manifestName)))
		must(t, m.write(path))
		if at, err := Newest(backups, src); err != nil || !at.IsZero() {
			t.Errorf("Newest of the backups of others = %v, %v", at, err)
		}
	}
	deleted, err := Prune(backups, src, 1, last)
	if err != nil || len(deleted) != 1 {
		t.Errorf("Prune = %v, %v; want one of two", deleted, err)
	}
	if at, err := Newest(backups, src); err != nil || !at.Equal(newest) {
		t.Errorf("Newest = %v, %v; want %v", at, err, newest)
	}
	if left, err := os.ReadDir(backups); err != nil || len(left) != 3 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestTheHostOfAnAdminPort(t *testing.T) {
	t.Parallel()
	own, err := os.Hostname()
	must(t, err)
	for url, want := range map[string]string{
		"http://zk1:8080": "", "http://10.0.0.1:8080": "", "http://localhost:8080": own, "http://127.0.0.1:8080": own, "http://[::1]:8080": own,
	} {
		if got, err := (Admin{URL: url}).host(); got != want || err != nil {
			t.Errorf("%s: host %q, %v; want %q", url, got, err, want)
		}
	}
}

// A backup is named by its millisecond. One that comes in the same has another name.
func TestBackupsOfOneMillisecond(t *testing.T) {
	t.Parallel()
	src, backups := DataDir{Dir: filled(t, server.Options{}, 1)}, t.TempDir()
	now := time.Now().UTC()
	for ms := range 300 {
		must(t, os.MkdirAll(filepath.Join(backups, now.Add(time.Duration(ms)*time.Millisecond).Format(nameLayout), versionDir), dirPerm))
	}
	_, m, err := Make(t.Context(), src, backups)
	must(t, err)
	if m.Made.Before(now.Add(299 * time.Millisecond)) {
		t.Errorf("made at %v, in the place of another", m.Made)
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	backups := t.TempDir()
	one, other := DataDir{Dir: filled(t, server.Options{}, 1)}, DataDir{Dir: filled(t, server.Options{}, 1)}
	killed := filepath.Join(backups, "20260101T000000.000Z"+partSuffix)
	must(t, os.MkdirAll(filepath.Join(killed, versionDir), dirPerm))
	if at, err := Newest(backups, one); err != nil || !at.IsZero() {
		t.Errorf("Newest of none = %v, %v", at, err)
	}
	var paths []string
	for _, src := range []DataDir{other, one, one, one} {
		path, m, err := Make(t.Context(), src, backups)
		must(t, err)
		paths = append(paths, path)
		if at, err := Newest(backups, src); err != nil || !at.Equal(m.Made) {
			t.Errorf("Newest = %v, %v; want %v", at, err, m.Made)
		}
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("what a killed backup left is still there")
	}
	deleted, err := Prune(backups, one, 2, paths[3])
	if err != nil || len(deleted) != 1 || deleted[0] != paths[1] {
		t.Errorf("Prune = %v, %v; want %v", deleted, err, paths[1])
	}
	for i, path := range paths {
		if _, err := Check(t.Context(), path); (err == nil) != (i != 1) {
			t.Errorf("%s: %v", path, err)
		}
	}
	early, err := readManifest(paths[2]) // made when the clock was ahead
	must(t, err)
	early.Made = early.Made.AddDate(1, 0, 0)
	must(t, os.Remove(filepath.Join(paths[2], manifestName)))
	must(t, early.write(paths[2]))
	if deleted, err := Prune(backups, one, 1, paths[3]); err != nil || len(deleted) != 1 || deleted[0] != paths[2] {
		t.Errorf("Prune = %v, %v; want %v: the other one was made just now", deleted, err, paths[2])
	}
}
