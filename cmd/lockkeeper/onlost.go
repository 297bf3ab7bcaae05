package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
)

// onLostLimit is how long the command of --on-lost may take.
const onLostLimit = time.Minute

// tellLost runs the command of --on-lost if the lock was lost. The command that ran under the lock is dead by then. INT,
// TERM and HUP end the command of --on-lost, not this process, which has a loss to report; those that are ignored stay so.
func (f *jobFlags) tellLost(out front.Outcome) {
	if f.onLost == "" || out.Kind != front.Lost {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), onLostLimit, fmt.Errorf("it was ended after %v", onLostLimit))
	defer cancel()
	heeded := slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	if len(heeded) > 0 { // no signal at all would stand for every one
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, heeded...)
		defer stop()
	}
	c := exec.CommandContext(ctx, "/bin/sh", "-c", f.onLost)
	c.Stdout, c.Stderr, c.Dir = os.Stderr, os.Stderr, f.onLostDir
	c.Env = append(out.Env, "LOCKKEEPER_LOST="+out.Text)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = time.Second
	err := c.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		killGroup(c.Process)
	}
	if err != nil {
		f.log.say(slog.LevelError, fmt.Sprintf("--on-lost: %v", err))
	}
}

// killGroup kills what is left of the process group that p leads.
func killGroup(p *os.Process) {
	if p != nil {
		syscall.Kill(-p.Pid, syscall.SIGKILL) // an error means that nothing is left
	}
}
