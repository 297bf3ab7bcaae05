package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
)

// A statusFile gets the outcome, for scripts that cannot live with a number. The nil one does not
// exist.
type statusFile struct{ *os.File }

// openStatusFile opens the file before anything is run, so that it cannot fail afterwards for reasons
// that could have been known. Without a path it returns nil.
func openStatusFile(path string) (*statusFile, error) {
	if path == "" {
		return nil, nil
	}
	if n, ok := descriptorOf(path); ok {
		fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, exit.Errorf(exit.CannotCreate, "status file: %s: %w", path, err)
		}
		return &statusFile{os.NewFile(uintptr(fd), path)}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NOCTTY, 0o666)
	if err != nil {
		return nil, exit.Errorf(exit.CannotCreate, "status file: %w", err)
	}
	return &statusFile{f}, nil
}

// descriptorOf returns the number of the open descriptor that a path names. Linux would open its file anew, at the beginning, and
// the outcome would overwrite what has been written through the descriptor.
func descriptorOf(path string) (int, bool) {
	switch path {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	dir, name := filepath.Split(path)
	n, err := strconv.Atoi(name)
	return n, err == nil && n >= 0 && (dir == "/dev/fd/" || dir == "/proc/self/fd/")
}

// outcomeLine is the contract of the status file.
type outcomeLine struct {
	Outcome string           `json:"outcome"`
	Status  int              `json:"status"`
	Token   int64            `json:"token,omitempty"`  // of several locks that of the first
	Tokens  map[string]int64 `json:"tokens,omitempty"` // of several locks, by their paths
	Command *front.ChildEnd  `json:"command,omitempty"`
	Message string           `json:"message,omitempty"`
}

// tell writes the outcome, or says why it could not. It is too late for the exit status to do so.
func (f *statusFile) tell(out front.Outcome) {
	if err := f.write(out); err != nil {
		notice(err.Error())
	}
}

func (f *statusFile) write(out front.Outcome) error {
	if f == nil {
		return nil
	}
	line, err := json.Marshal(outcomeLine{out.Kind, out.Status, out.Token, out.Tokens, out.Child, out.Text})
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("status file: %w", err)
	}
	return nil
}
