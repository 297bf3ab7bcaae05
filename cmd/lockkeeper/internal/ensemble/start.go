package ensemble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Runner starts members on this machine.
type Runner struct {
	Java      string // the program
	ClassPath string
}

// DefaultRunner runs what Debian packages.
func DefaultRunner() Runner { return Runner{Java: "java", ClassPath: classPath} }

// Check returns what is missing.
func (r Runner) Check() error {
	if _, err := exec.LookPath(r.Java); err != nil {
		return fmt.Errorf("%w (apt-get install default-jre-headless)", err)
	}
	first, _, _ := strings.Cut(r.ClassPath, ":")
	if _, err := os.Stat(strings.TrimSuffix(first, "*")); err != nil {
		return fmt.Errorf("jars of Apache ZooKeeper: %w (apt-get install zookeeper, or name its jars with --class-path '/opt/zookeeper/lib/*')", err)
	}
	return nil
}

const (
	logName = "server.log"
	pidName = "server.pid"

	// stopTimeout is how long a member may take to end before it is killed.
	stopTimeout = 20 * time.Second
)

// A running member is a process that this one has started.
type running struct {
	member Member
	cmd    *exec.Cmd
	ended  chan error // its end
}

// Start verifies the ensemble with processes on this machine, lets clients in, and leaves the processes running. note is told what
// is done.
func (p *Plan) Start(ctx context.Context, r Runner, dial Dialer, note func(string)) ([]Report, error) {
	if !p.Spec.together() {
		return nil, fmt.Errorf("--start: the members are not on this machine (format %s)", p.Spec.Format)
	}
	for _, m := range p.Spec.Members {
		if err := p.checkHome(m); err != nil {
			return nil, err
		}
	}
	note("starting the members with a port for clients that no client knows")
	all, err := p.launch(r, true)
	if err != nil {
		return nil, errors.Join(err, stop(all))
	}
	watched, done := until(ctx, all)
	reports, err := p.Verify(watched, dial)
	done()
	err = errors.Join(err, stop(all))
	if err != nil {
		return reports, fmt.Errorf("%w (the logs: %s)", err, filepath.Join(p.Spec.Out, "member*", logName))
	}
	note("all members have the data; starting them for clients")
	all, err = p.launch(r, false)
	if err != nil {
		return reports, errors.Join(err, stop(all))
	}
	watched, done = until(ctx, all)
	defer done()
	return reports, p.awaitModes(watched, dial)
}

// launch starts all members. Those that are not to last are killed with this process.
func (p *Plan) launch(r Runner, brief bool) (all []*running, err error) {
	for _, m := range p.Spec.Members {
		dir := filepath.Join(p.Spec.Out, m.Folder())
		log, err := os.OpenFile(filepath.Join(dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
		if err != nil {
			return all, err
		}
		cmd := exec.Command(r.Java, "-Xmx"+p.Spec.Heap, "-cp", r.ClassPath, serverClass, filepath.Join(dir, "zoo.cfg"))
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
		cmd.SysProcAttr = attributes(brief)
		err = errors.Join(cmd.Start(), log.Close())
		if err != nil {
			return all, err
		}
		one := &running{member: m, cmd: cmd, ended: make(chan error, 1)}
		all = append(all, one)
		go func() { one.ended <- cmd.Wait() }() // ends with the process, or with this one
		if err := os.WriteFile(filepath.Join(dir, pidName), fmt.Appendln(nil, cmd.Process.Pid), publicMode); err != nil {
			return all, err
		}
	}
	return all, nil
}

// until returns a context that ends when one of the processes does; done ends the watch.
func until(ctx context.Context, all []*running) (watched context.Context, done func()) {
	watched, cancel := context.WithCancelCause(ctx)
	var watchers sync.WaitGroup
	for _, one := range all {
		watchers.Go(func() {
			select {
			case err := <-one.ended:
				one.ended <- err // for stop
				cancel(fmt.Errorf("member %d has ended: %v", one.member.ID, err))
			case <-watched.Done():
			}
		})
	}
	return watched, func() {
		cancel(nil)
		watchers.Wait()
	}
}

// stop ends processes and waits for their ends.
func stop(all []*running) error {
	for _, one := range all {
		if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	deadline := time.After(stopTimeout)
	for _, one := range all {
		select {
		case <-one.ended:
		case <-deadline:
			if err := one.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
			<-one.ended
		}
	}
	return nil
}

// awaitModes waits until one member leads and the others follow, with clients let in.
func (p *Plan) awaitModes(ctx context.Context, dial Dialer) error {
	for {
		leaders, followers := 0, 0
		for _, address := range p.addresses() {
			switch mode(ctx, dial, address) {
			case "leader":
				leaders++
			case "follower":
				followers++
			}
		}
		if leaders == 1 && followers == len(p.Spec.Members)-1 {
			return nil
		}
		select {
		case <-time.After(askInterval):
		case <-ctx.Done():
			return fmt.Errorf("verified, and started again; of %d members %d lead and %d follow: %w (see lockkeeper doctor and the logs)", len(p.Spec.Members), leaders, followers, context.Cause(ctx))
		}
	}
}
