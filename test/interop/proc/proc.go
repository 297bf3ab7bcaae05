// Package proc runs the processes of tests so that none outlives them: each leads a process group
// of its own, and the kernel kills it should the test binary die.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A Process is a child that runs, or ran.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts cmd, with what its SysProcAttr asks for besides.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Kill ends the process and all that it started, at once, and returns when it is gone. It may be
// called again.
func (p *Process) Kill() {
	select {
	case <-p.exited:
	default:
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // not found: it was faster
		<-p.exited
	}
}

// freezeTimeout bounds how long it may take until all threads of a process have stopped.
const freezeTimeout = 10 * time.Second

// Freeze stops the process where it is: its sockets stay open and silent. It returns when every thread
// has stopped: until then, some would still have done something.
func (p *Process) Freeze() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(freezeTimeout); !p.stopped(); time.Sleep(time.Millisecond) {
		select {
		case <-p.exited:
			return fmt.Errorf("process %d ended instead of freezing", p.cmd.Process.Pid)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d has not stopped after %v", p.cmd.Process.Pid, freezeTimeout)
		}
	}
	return nil
}

// stopped reports whether the kernel has stopped all threads.
func (p *Process) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	for _, t := range threads {
		b, err := os.ReadFile(t)
		_, rest, _ := bytes.Cut(b, []byte(") ")) // behind the name
		if err == nil && !bytes.HasPrefix(rest, []byte("T")) {
			return false
		}
	}
	return len(threads) > 0
}

// Thaw ends a Freeze.
func (p *Process) Thaw() error { return p.Signal(syscall.SIGCONT) }

// Signal sends the process and all that it started a signal.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil {
		return fmt.Errorf("%v to process %d: %w", sig, p.cmd.Process.Pid, err)
	}
	return nil
}

// root is that of the repository, as seen from the packages below test/interop, whose tests run there.
const root = "../../.."

// commandVariable is the environment variable by which make names a command that it has built for all packages;
// linking it again in each takes longer than some of their tests.
const commandVariable = "LOCKKEEPER_TEST_COMMAND"

// BuildCommand builds the command lockkeeper into a file.
func BuildCommand(file string) error {
	if built := os.Getenv(commandVariable); built != "" {
		b, err := os.ReadFile(built)
		if err != nil {
			return fmt.Errorf("the command that make has built: %w", err)
		}
		return os.WriteFile(file, b, 0o755)
	}
	build := exec.Command("go", "build", "-o", file, "./cmd/lockkeeper")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return nil
}
