package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
)

// roleSignals are the signals that join and register pass on to their command.
var roleSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// A roleChild is the command of join or register. Unlike that of run it needs no lock, so it may outlive this process.
type roleChild struct {
	cmd     *exec.Cmd
	signals chan os.Signal
}

// newRoleChild prepares a command. From now on signals wait for it. Its error carries an exit status.
func newRoleChild(argv []string) (*roleChild, error) {
	program, err := exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, notRunnable(argv, err)
	}
	c := &roleChild{cmd: exec.Command(program, argv[1:]...), signals: make(chan os.Signal, len(roleSignals))}
	c.cmd.Args[0] = argv[0]
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	for _, sig := range roleSignals {
		if !signal.Ignored(sig) {
			signal.Notify(c.signals, sig)
		}
	}
	outlivePipes()
	return c, nil
}

// before calls f with a context that a signal ends. The error of a signal ends the process as the signal would.
func (c *roleChild) before(f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		cancel()
		return err
	case sig := <-c.signals:
		cancel()
		<-done
		return &ranError{Outcome: front.Outcome{Kind: front.Signalled, Status: exit.SignalBase + int(sig.(syscall.Signal))}}
	}
}

// run starts the command, passes signals on to it and returns how it has ended.
func (c *roleChild) run() error {
	err := c.cmd.Start()
	if err != nil {
		return exit.Errorf(front.ExecStatus(err), "%s: %w", c.cmd.Args[0], err)
	}
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	interrupted := false
	for {
		select {
		case sig := <-c.signals:
			interrupted = interrupted || sig == syscall.SIGINT
			if (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && front.HasTerminal() {
				continue // the terminal, most likely, and to the command as well
			}
			c.cmd.Process.Signal(sig) // an error means that it has ended
		case err := <-done:
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) {
				return exit.Errorf(exit.OS, "%s: %w", c.cmd.Args[0], err)
			}
			out := front.Outcome{Kind: front.Ran, Status: c.cmd.ProcessState.ExitCode()}
			if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				out.Status = exit.SignalBase + int(ws.Signal())
				if ws.Signal() == syscall.SIGINT && (interrupted || c.isInterrupted()) { // this process ends by the signal, too
					out.Kind = front.Signalled
				}
			}
			return &ranError{Outcome: out}
		}
	}
}

// isInterrupted reports whether INT has come to this process as well: ^C is for all processes of the job, and the command may
// have heard of it first.
func (c *roleChild) isInterrupted() bool {
	for limit := time.After(100 * time.Millisecond); ; {
		select {
		case sig := <-c.signals:
			if sig == syscall.SIGINT {
				return true
			}
		case <-limit:
			return false
		}
	}
}

// withRoleChild prepares a command that is part of a group or a service, as what says, opens a Keeper, and closes it after do, which runs the command.
func (f *accessFlags) withRoleChild(what string, argv []string, do func(*roleChild, *client.Keeper, access.Settings) error) error {
	to, err := f.settings()
	if err != nil {
		return err
	}
	child, err := newRoleChild(argv)
	if err != nil {
		return err
	}
	child.cmd.Env = f.passOn(os.Environ(), to)
	// Credentials of one ensemble are not for another, and the command may be at work in another directory. What names the keeper of this
	// machine already stays: maybe by its socket, which other programs understand as well.
	if set := os.Getenv(serversVariable); set == "" || chooseServers(set) != to.Servers || to.Servers != access.Local {
		child.cmd.Env = append(child.cmd.Env, serversVariable+"="+to.Servers) // of two values the last counts
	}
	f.noticeLocal(what)
	var k *client.Keeper
	err = child.before(func(ctx context.Context) error {
		k, err = openKeeper(ctx, to, f.log)
		return err
	})
	if err != nil {
		return err
	}
	defer closeKeeper(k, roleCloseTimeout)
	return do(child, k, to)
}

// roleCloseTimeout bounds the goodbye of a command whose znodes go with its session.
const roleCloseTimeout = 5 * time.Second

// withKeeper opens a Keeper for what owns nothing, and closes it after do.
func (f *accessFlags) withKeeper(ctx context.Context, do func(context.Context, *client.Keeper) error) error {
	to, err := f.settings()
	if err != nil {
		return err
	}
	k, err := openKeeper(ctx, to, f.log)
	if err != nil {
		return err
	}
	defer closeKeeper(k, idleCloseLimit)
	err = do(ctx, k)
	if err != nil {
		return explained(err, to)
	}
	return nil
}

func closeKeeper(k *client.Keeper, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	k.Close(ctx) // without an answer, the znodes go with the session
}
