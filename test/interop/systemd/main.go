//go:build linux

// Command systemd runs the units of the folder packaging, and those of docs/operations.md, under a systemd of its own, which
// is process 1 of new namespaces: neither the machine's systemd nor its files take part. It needs root, a mount of cgroup v2 and
// the Debian package systemd. make systemd-check runs it.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	manager = "/lib/systemd/systemd"
	inside  = "/run/check" // the directory of the check, as processes in the namespaces see it
	limit   = 3 * time.Minute
)

func main() {
	command := flag.String("command", "lockkeeper", "the command lockkeeper, linked statically")
	packaging := flag.String("packaging", "packaging", "directory with the units")
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "cage":
		err = cage(flag.Arg(1))
	case "inside":
		err = check()
	default:
		err = run(*command, *packaging)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "systemd:", err)
		os.Exit(1)
	}
}

// run prepares a directory and starts systemd, which runs this program again as a service.
func run(command, packaging string) error {
	if _, err := os.Stat(manager); err != nil {
		return fmt.Errorf("%w (apt-get install systemd)", err)
	}
	if os.Getuid() != 0 {
		return errors.New("namespaces and cgroups need root")
	}
	dir, err := os.MkdirTemp("", "lockkeeper-systemd")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for name, from := range map[string]string{"lockkeeper": command, "check": self} {
		err := copyFile(filepath.Join(dir, name), from, 0o755)
		if err != nil {
			return err
		}
	}
	err = writeUnits(dir, packaging)
	if err != nil {
		return err
	}
	group, err := newGroup()
	if err != nil {
		return err
	}
	defer group.remove()
	var said bytes.Buffer
	c := exec.Command(self, "cage", dir)
	c.Stdout, c.Stderr = &said, &said
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
		UseCgroupFD: true, CgroupFD: int(group.file.Fd()),
		Setsid: true, Pdeathsig: syscall.SIGKILL,
	}
	err = c.Start()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	err = follow(filepath.Join(dir, "out"), ended)
	c.Process.Kill() // and with process 1 all processes of its namespace
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s%s", said.String(), read(filepath.Join(dir, "services.log")))
	}
	return err
}

// follow prints what the check writes, and returns how it has ended.
func follow(out string, ended <-chan error) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	deadline := time.After(limit)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM) // process 1 of a namespace outlives us unless we kill it
	printed := 0
	for {
		text := read(out)
		os.Stdout.WriteString(text[printed:])
		printed = len(text)
		switch {
		case strings.Contains(text, "\n"+verdict+"violations=0\n"):
			return nil
		case strings.Contains(text, "\n"+verdict):
			return errors.New("the units do not do what is written")
		}
		select {
		case err := <-ended:
			return fmt.Errorf("process 1 has ended: %w", err)
		case sig := <-stop:
			return fmt.Errorf("stopped: %v", sig)
		case <-deadline:
			return fmt.Errorf("no result within %v", limit)
		case <-look.C:
		}
	}
}

// cage runs in the new namespaces. It mounts a view of the machine in which nothing that lasts can be changed, and becomes systemd.
func cage(dir string) error {
	runtime.LockOSThread()                    // the namespace is the thread's, and it has to be the one that becomes systemd
	err := unix.Unshare(unix.CLONE_NEWCGROUP) // the cgroup of this process is the root from now on
	if err != nil {
		return fmt.Errorf("cgroup namespace: %w", err)
	}
	const readOnly = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY
	for _, m := range []struct {
		what, where, kind string
		flags             uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"", "/sys", "", readOnly},
		{"none", "/sys/fs/cgroup", "tmpfs", 0}, // there may be a cgroup v1, which systemd would prefer
		{"none", "/sys/fs/cgroup", "cgroup2", 0},
		{"none", "/run", "tmpfs", 0},
		{dir, inside, "", unix.MS_BIND},
		{"none", "/tmp", "tmpfs", 0},
		{"none", "/var", "tmpfs", 0},
		{"none", "/root", "tmpfs", 0},
		{"", "/dev", "", readOnly},
		{"proc", "/proc", "proc", 0},
		{"/proc/sys", "/proc/sys", "", unix.MS_BIND},
		{"", "/proc/sys", "", readOnly},
		{"", "/", "", readOnly},
	} {
		if m.where == inside {
			err := os.Mkdir(inside, 0o755)
			if err != nil {
				return err
			}
		}
		err := unix.Mount(m.what, m.where, m.kind, m.flags, "")
		if err != nil {
			return fmt.Errorf("mount of %s: %w", m.where, err)
		}
	}
	for _, path := range []string{"/x", "/etc/x", "/usr/x"} {
		err := os.WriteFile(path, nil, 0o600)
		if err == nil {
			os.Remove(path)
			return fmt.Errorf("%s can be written: the machine is not safe from the check", path)
		}
	}
	err = os.MkdirAll("/var/tmp", 0o777)
	if err != nil {
		return err
	}
	err = exec.Command("ip", "link", "set", "lo", "up").Run()
	if err != nil {
		return fmt.Errorf("ip link set lo up: %w", err)
	}
	// Of units there are those of the check alone: those of the machine would clean up its directories and set its variables.
	env := []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "container=lockkeeper-check", "SYSTEMD_UNIT_PATH=" + inside + "/units",
		"SYSTEMD_GENERATOR_PATH=" + inside + "/none", "SYSTEMD_ENVIRONMENT_GENERATOR_PATH=" + inside + "/none",
	}
	return unix.Exec(manager, []string{manager, "--system", "--unit=check.target", "--log-target=console", "--show-status=no"}, env)
}

// A cgroup is the cgroup below which systemd makes its own.
type cgroup struct {
	dir  string
	file *os.File
}

func newGroup() (*cgroup, error) {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		err := unix.Statfs(root, &fs)
		if err != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir := fmt.Sprintf("%s/lockkeeper-check-%d", root, os.Getpid())
		err = os.Mkdir(dir, 0o755)
		if err != nil {
			return nil, err
		}
		f, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		return &cgroup{dir, f}, nil
	}
	return nil, errors.New("no cgroup v2 is mounted at /sys/fs/cgroup or /sys/fs/cgroup/unified")
}

// remove removes the cgroup and those in it, once the kernel has ended their processes.
func (g *cgroup) remove() {
	g.file.Close()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		exec.Command("find", g.dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
		if _, err := os.Stat(g.dir); err != nil {
			return
		}
	}
	fmt.Fprintf(os.Stderr, "systemd: %s was not removed\n", g.dir)
}

func copyFile(to, from string, mode os.FileMode) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// read returns what a file has so far.
func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}
