package localserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// FDReady is the descriptor over which a keeper that was started in the background says that it is
// ready, or what is wrong.
const FDReady = 3

const readyWord = "ready"

// logBytesMax is how long the log may be; a longer one is put aside, in place of the one before.
const logBytesMax = 1 << 20

// A Starter finds the keeper, and starts it if there is none.
type Starter struct {
	Places Places
	// Program and Args run a keeper that reports at FDReady.
	Program string
	Args    []string // the program's name first
	// Notice is told, in a line for the user, when there is a keeper for the first time ever.
	Notice func(string)
}

// startsMax is how often a keeper is started that is gone when we look for it. One that had nothing to
// do may end in just that moment; one that always does is broken.
const startsMax = 20

// Dial returns a connection to the keeper. It starts one if there is none, and of many processes that do so at
// the same time one does it and the others wait. Meanwhile it sets the umask of the process.
func (s Starter) Dial(ctx context.Context) (c net.Conn, a Address, err error) {
	if c, a, err = s.Places.Find(); err == nil {
		return c, a, nil
	}
	defer ownUmask()()
	const advice = "set XDG_STATE_HOME to a directory of your own, or name servers with --servers"
	if err := s.Places.makeState(); err != nil {
		return nil, a, fmt.Errorf("local keeper: %w (%s)", err, advice)
	}
	starting, err := lockFile(ctx, filepath.Join(s.Places.State, "starting.lock"))
	if err != nil {
		return nil, a, fmt.Errorf("local keeper: %w (%s)", err, advice)
	}
	defer starting.Close()
	for range startsMax {
		if c, a, err = s.Places.Find(); err == nil {
			return c, a, nil
		}
		first := s.Places.isNew()
		if err := s.start(ctx); err != nil {
			if c, a, findErr := s.Places.Find(); findErr == nil {
				return c, a, nil // it was there all the time, under another address
			}
			return nil, a, fmt.Errorf("local keeper: %w", err)
		}
		if first && s.Notice != nil {
			s.Notice("a keeper for locks on this machine was started in the background (data in " + s.Places.State + ")")
		}
	}
	return nil, a, fmt.Errorf("local keeper: it starts and does not answer: %w (see %s)", err, s.Places.Log())
}

// start starts a keeper in a session of its own, without any stream of ours, and waits until it is
// ready. It outlives us, mostly.
func (s Starter) start(ctx context.Context) error {
	log, err := openLog(s.Places.Log())
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := &exec.Cmd{Path: s.Program, Args: s.Args, Dir: "/"} // there, so as not to keep a file system busy
	cmd.Env = slices.DeleteFunc(os.Environ(), ofUsAlone)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{FDReady - 3: w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	go cmd.Wait() // until one of us ends: what has ended is not to stay in the table of processes
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, err := io.ReadAll(io.LimitReader(r, 64<<10))
	switch text := strings.TrimSpace(string(answer)); {
	case text == readyWord:
		return nil
	case text != "":
		return fmt.Errorf("%s", text)
	case ctx.Err() != nil:
		return fmt.Errorf("not ready in time (see %s): %w", s.Places.Log(), context.Cause(ctx))
	case err != nil:
		return err
	}
	return fmt.Errorf("it ended while starting (see %s)", s.Places.Log())
}

// ofUsAlone reports whether a variable is about us, or what runs under our lock, and not about a keeper, which others
// use, too: limits on the memory of a user's own programs, for example.
func ofUsAlone(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"LOCKKEEPER_LOCK", "LOCKKEEPER_TOKEN", "LOCKKEEPER_GRACE", "LOCKKEEPER_UNDER", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"}, name)
}

// openLog opens the log for appending, after putting a long one aside.
func openLog(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Size() > logBytesMax {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
}
