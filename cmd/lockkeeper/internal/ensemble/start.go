package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// A memberProcess is a member that this process has started.
type memberProcess struct {
	member Member
	cmd    *exec.Cmd
	log    string // its log, which may have been there before
	from   int64  // where in the log this process begins
	ended  chan error
}

// why returns why the process has ended, as far as its log says.
func (r *memberProcess) why(err error) error {
	text, readErr := os.ReadFile(r.log)
	if readErr != nil || int64(len(text)) < r.from {
		return fmt.Errorf("member %d has ended: %v", r.member.ID, err)
	}
	said := "the log has no exception"
	for line := range strings.Lines(string(text[r.from:])) {
		line = strings.TrimSpace(line)
		if first, _, _ := strings.Cut(line, " "); strings.HasSuffix(first, "Exception:") || strings.HasPrefix(line, "Caused by: ") || strings.HasPrefix(line, "Error: ") {
			said = line // the last one is the nearest to the cause
		}
	}
	return fmt.Errorf("member %d has ended: %v: %s (%s)", r.member.ID, err, said, r.log)
}

// portsFree returns which ports of the members other programs have.
func (p *Plan) portsFree() error {
	var errs []error
	for _, m := range p.Spec.Members {
		for name, port := range map[string]int{"port for clients": m.Client, "port for clients while it is checked": p.Closed[m.ID], "quorum port": m.Quorum, "election port": m.Election} {
			l, err := net.Listen("tcp", net.JoinHostPort(m.Host, strconv.Itoa(port)))
			if err != nil {
				errs = append(errs, fmt.Errorf("member %d: the %s: %w", m.ID, name, err))
				continue
			}
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// Start verifies the ensemble with processes on this machine, lets clients in, and leaves the processes running. An ensemble that was
// verified before is only started. note is told what is done.
func (p *Plan) Start(ctx context.Context, r Runner, dial Dialer, note func(string)) ([]Report, error) {
	if !p.Spec.together() {
		return nil, fmt.Errorf("--start: the members are not on this machine (format %s)", p.Spec.Format)
	}
	for _, m := range p.Spec.Members {
		home := Source{Dir: filepath.Join(p.Spec.Out, m.Folder(), "data")}
		if err := errors.Join(p.checkHome(ctx, m), home.stopped()); err != nil {
			return nil, err
		}
	}
	if err := p.portsFree(); err != nil {
		return nil, err
	}
	if p.Open {
		note("the ensemble was verified before; starting the members for clients")
		return nil, p.open(ctx, r, dial)
	}
	note("starting the members with a port for clients that no client knows")
	all, err := p.launch(r, true)
	if err != nil {
		return nil, errors.Join(err, stop(all, stopTimeout))
	}
	watched, done := until(ctx, all)
	reports, err := p.Verify(watched, dial)
	done()
	err = errors.Join(err, stop(all, stopTimeout))
	if err != nil {
		if reports != nil {
			err = fmt.Errorf("%w (the logs: %s)", err, filepath.Join(p.Spec.Out, "member*", logName))
		}
		return reports, err
	}
	note("all members have the data; starting them for clients")
	return reports, p.open(ctx, r, dial)
}

// open starts the members for clients, and waits until they serve.
func (p *Plan) open(ctx context.Context, r Runner, dial Dialer) error {
	all, err := p.launch(r, false)
	if err != nil {
		return errors.Join(err, stop(all, stopTimeout))
	}
	watched, done := until(ctx, all)
	defer done()
	return p.awaitModes(watched, dial)
}

// launch starts all members. Those that are not to last are killed with this process.
func (p *Plan) launch(r Runner, brief bool) (all []*memberProcess, err error) {
	for _, m := range p.Spec.Members {
		dir := filepath.Join(p.Spec.Out, m.Folder())
		log, err := os.OpenFile(filepath.Join(dir, logName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
		if err != nil {
			return all, err
		}
		info, err := log.Stat()
		if err != nil {
			return all, errors.Join(err, log.Close())
		}
		cmd := exec.Command(r.Java, "-Xmx"+p.Spec.Heap, "-cp", r.ClassPath, serverClass, filepath.Join(dir, "zoo.cfg"))
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
		cmd.SysProcAttr = attributes(brief)
		err = errors.Join(cmd.Start(), log.Close())
		if err != nil {
			return all, err
		}
		one := &memberProcess{member: m, cmd: cmd, log: log.Name(), from: info.Size(), ended: make(chan error, 1)}
		all = append(all, one)
		go func() { one.ended <- cmd.Wait() }() // ends with the process, or with this one
		if err := os.WriteFile(filepath.Join(dir, pidName), fmt.Appendln(nil, cmd.Process.Pid), publicMode); err != nil {
			return all, err
		}
	}
	return all, nil
}

// until returns a context that ends when one of the processes does; done ends the watch.
func until(ctx context.Context, all []*memberProcess) (watched context.Context, done func()) {
	watched, cancel := context.WithCancelCause(ctx)
	var watchers sync.WaitGroup
	for _, one := range all {
		watchers.Go(func() {
			select {
			case err := <-one.ended:
				one.ended <- err // for stop
				cancel(one.why(err))
			case <-watched.Done():
			}
		})
	}
	return watched, func() {
		cancel(nil)
		watchers.Wait()
	}
}

// stop ends processes and waits for their ends. Those that have not ended within the limit are killed.
func stop(all []*memberProcess, limit time.Duration) error {
	for _, one := range all {
		if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	patience, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, one := range all {
		select {
		case <-one.ended:
		case <-patience.Done():
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
