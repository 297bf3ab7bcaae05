// Package postgres runs PostgreSQL, as Debian packages it, for tests: a server with a fresh cluster, as
// an unprivileged user, on a Unix socket and no port. It is gone when its test is over, and killed by the
// kernel should the test binary die first. What is in it does not survive a crash of the machine.
package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

const (
	// startTimeout bounds how long the server may take until it is ready, stopTimeout how long
	// until it is gone.
	startTimeout = 60 * time.Second
	stopTimeout  = 10 * time.Second
	pollInterval = 20 * time.Millisecond

	logTailBytes = 4 << 10
)

// Start runs a server that lives as long as the test and returns a connection string for drivers.
func Start(t testing.TB) string {
	t.Helper()
	dir, err := start(t)
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	return "host=" + dir + " user=test dbname=postgres sslmode=disable"
}

func start(t testing.TB) (dir string, err error) {
	bin, err := binaries()
	if err != nil {
		return "", err
	}
	who, err := unprivileged()
	if err != nil {
		return "", err
	}
	// Not t.TempDir: only its owner may look into what is above that.
	if dir, err = os.MkdirTemp("", "lockkeeper-pg-"); err != nil {
		return "", err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if who.Credential != nil {
		if err := os.Chown(dir, int(who.Credential.Uid), int(who.Credential.Gid)); err != nil {
			return "", err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "--pgdata", data, "--username", "test", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = &who, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return dir, serve(t, bin, dir, data, who)
}

// serve runs the server until the test is over, and returns when it answers.
func serve(t testing.TB, bin, dir, data string, who syscall.SysProcAttr) error {
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	cmd.SysProcAttr, cmd.Dir = &who, dir
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = stopTimeout // its children may have the log open a little longer
	p, err := proc.Start(cmd)
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		p.Signal(syscall.SIGQUIT) // its children leave the process group, but obey this
		select {
		case <-p.Exited():
		case <-time.After(stopTimeout):
			p.Kill()
		}
		if t.Failed() {
			t.Logf("end of PostgreSQL's log:\n%s", log.Bytes()[max(0, log.Len()-logTailBytes):])
		}
	})
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(pollInterval) {
		if exec.Command(filepath.Join(bin, "pg_isready"), "--quiet", "--host", dir, "--username", "test", "--dbname", "postgres").Run() == nil {
			return nil
		}
		select {
		case <-p.Exited():
			return fmt.Errorf("it exited:\n%s", log.Bytes())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v", startTimeout)
		}
	}
}

// binaries returns the folder of the newest version that is installed.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.Join(err, errors.New("package postgresql is not installed"))
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// unprivileged says as which user to run the server, which refuses to be root.
func unprivileged() (syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return syscall.SysProcAttr{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return syscall.SysProcAttr{}, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return syscall.SysProcAttr{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return syscall.SysProcAttr{}, err
	}
	return syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
