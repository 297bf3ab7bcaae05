// Package proc runs the processes of tests so that none outlives them: each leads a process group
// of its own, and the kernel kills it should the test binary die.
package proc

import (
	"fmt"
	"os/exec"
	"syscall"
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

// Freeze stops the process where it is: its sockets stay open and silent.
func (p *Process) Freeze() error { return p.Signal(syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (p *Process) Thaw() error { return p.Signal(syscall.SIGCONT) }

// Signal sends the process and all that it started a signal.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil {
		return fmt.Errorf("%v to process %d: %w", sig, p.cmd.Process.Pid, err)
	}
	return nil
}
