package ensemble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zoocfg"
)

// stopped returns why the source may be in use. A server of ours holds a lock on its directory. Apache ZooKeeper holds none, so
// all that gives it away is looked at: the file with its process number, the configuration that its process was started with, and
// the files that processes have open. Processes on other machines are not seen, nor, without root, the open files of other users.
func (s Source) stopped() error {
	err := ApacheAt(s.Dir)
	if err != nil {
		return err
	}
	files := map[string]bool{}
	var infos []fs.FileInfo
	for _, dir := range s.folders() {
		all, err := names(dir)
		if err != nil {
			return err
		}
		for _, name := range all {
			files[name] = true
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
				infos = append(infos, info)
			}
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, p := range processes {
		if isOurs(p) {
			continue
		}
		if name := opened(p, files, infos); name != "" {
			return fmt.Errorf("%s: process %s has %s open (stop it first)", s.Dir, filepath.Base(p), name)
		}
	}
	return nil
}

// ApacheAt returns an error if a process of Apache ZooKeeper on this machine has that data directory. A directory that is not there
// has none.
func ApacheAt(dir string) error {
	own, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if pid, ok := pidOf(filepath.Join(dir, "zookeeper_server.pid")); ok && serverProcess(pid) {
		return fmt.Errorf("%s: Apache ZooKeeper is at work there, as process %d (stop it first)", dir, pid)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, p := range processes {
		if configuredFor(p, own) {
			return fmt.Errorf("%s: Apache ZooKeeper is at work there, as process %s (stop it first)", dir, filepath.Base(p))
		}
	}
	return nil
}

// isOurs reports whether a process is this one, or a child of it that has not begun its own program yet, and has our files open until
// then.
func isOurs(process string) bool {
	own := strconv.Itoa(os.Getpid())
	if filepath.Base(process) == own {
		return true
	}
	status, _ := os.ReadFile(filepath.Join(process, "status"))
	theirs, _ := os.ReadFile(filepath.Join(process, "cmdline"))
	ours, err := os.ReadFile("/proc/self/cmdline")
	return err == nil && bytes.Contains(status, []byte("\nPPid:\t"+own+"\n")) && bytes.Equal(theirs, ours)
}

// pidOf reads a file with the number of a process.
func pidOf(path string) (int, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid, err == nil && pid > 0
}

// serverProcess reports whether a process is a server of Apache ZooKeeper.
func serverProcess(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && ServerArgs(text) != nil
}

// ServerArgs returns the arguments behind the class of Apache ZooKeeper's server; nil for other programs.
func ServerArgs(cmdline []byte) []string {
	args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	for i, a := range args {
		if a == serverClass || a == "org.apache.zookeeper.server.ZooKeeperServerMain" {
			return args[i+1:]
		}
	}
	return nil
}

// configuredFor reports whether a process is a server of Apache ZooKeeper whose data directory this is.
func configuredFor(process string, dir fs.FileInfo) bool {
	cmdline, err := os.ReadFile(filepath.Join(process, "cmdline"))
	if err != nil {
		return false
	}
	args := ServerArgs(cmdline)
	// A process in a container has other names for files. Without root its directories cannot be seen, and ours are as good as any.
	place := func(path string) []string {
		if !filepath.IsAbs(path) {
			return []string{filepath.Join(process, "cwd", path)}
		}
		return []string{filepath.Join(process, "root", path), path}
	}
	same := func(path string) bool {
		for _, candidate := range place(path) {
			if info, err := os.Stat(candidate); err == nil && os.SameFile(info, dir) {
				return true
			}
		}
		return false
	}
	switch len(args) {
	case 0:
		return false
	case 1: // a file; otherwise a port and a directory
	default:
		return same(args[1])
	}
	for _, path := range place(args[0]) {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		settings, err := zoocfg.Read(path, f)
		f.Close()
		if err != nil {
			continue
		}
		for _, kv := range settings {
			if (kv.Key == "dataDir" || kv.Key == "dataLogDir") && same(kv.Value) {
				return true
			}
		}
	}
	return false
}

// opened returns the name of a file of the source that a process has open; empty for none, or if that cannot be seen.
func opened(process string, named map[string]bool, infos []fs.FileInfo) string {
	links, err := filepath.Glob(filepath.Join(process, "fd", "*"))
	if err != nil {
		return ""
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !named[filepath.Base(target)] {
			continue
		}
		info, err := os.Stat(link)
		if err != nil {
			continue
		}
		for _, own := range infos {
			if os.SameFile(own, info) {
				return own.Name()
			}
		}
	}
	return ""
}

// silenceTimeout is how long a server may take to answer where none is expected.
const silenceTimeout = 2 * time.Second

// Silent returns an error if a ZooKeeper server answers where a member is going to be, or at one of the other addresses: it may be
// the one that the data is of, on a machine whose processes cannot be seen.
func (s *Spec) Silent(ctx context.Context, others ...string) error {
	for _, m := range s.services(nil) {
		if s.Format == FormatCompose {
			m.Host, m.Client = localPlaces, m.Published
		}
		others = append(others, m.Address())
		if !s.together() && s.TLS { // the server before may have been without TLS
			m.Client = clientPortDefault
			others = append(others, m.Address())
		}
	}
	errs := make([]error, len(others))
	var all sync.WaitGroup
	for i, address := range others {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, silenceTimeout)
			defer cancel()
			if status, err := fourletter.Ask(ctx, (&net.Dialer{}).DialContext, "tcp", address); err == nil {
				errs[i] = fmt.Errorf("a server answers at %s (%s, zxid %s): if it is the server that the data is of, or a member that lets clients in already, stop it first", address, status.Mode, status.Zxid)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
