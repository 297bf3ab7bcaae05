//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	verdict = "systemd: "
	servers = "127.0.0.1:2181"
	patient = 20 * time.Second
	soon    = 10 * time.Second // for what happens at once, on a machine that is busy
)

// A checker counts what is not as it should be.
type checker struct{ violations int }

// check runs all checks, and prints how many have failed.
func check() error {
	c := &checker{}
	for _, s := range []struct {
		name string
		do   func()
	}{
		{"the files are valid units", c.valid},
		{"the server is ready when its unit is, and its data survives a restart", c.server},
		{"a service runs under the lock that its unit depends on, and a second one waits", c.waits},
		{"the lock is given back when the service is killed", c.killed},
		{"a lock that is broken ends the service", c.broken},
		{"a server that does not answer ends the service before the session can expire", c.cutOff},
		{"a lock unit whose main process is killed ends the service", c.holderKilled},
		{"a target that upholds the service starts it again", c.upheld},
		{"elect and run under systemd are ready, stop well and give back", c.direct},
	} {
		before, begin := c.violations, time.Now()
		s.do()
		result := "ok  "
		if c.violations > before {
			result = "FAIL"
		}
		fmt.Printf("%s %5.1fs  %s\n", result, time.Since(begin).Seconds(), s.name)
		c.systemctl("stop", "upholds.target", "orders", "second", "scheduler", "notifies")
		c.systemctl("reset-failed")
	}
	fmt.Printf("%sviolations=%d\n", verdict, c.violations)
	return nil
}

func (c *checker) valid() {
	for _, unit := range []string{"lockkeeper.service", "lockkeeper-lock@.service"} {
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", inside+"/units/"+unit).CombinedOutput()
		if err != nil || len(out) > 0 {
			c.fail("systemd-analyze verify %s: %v\n%s", unit, err, out)
		}
	}
}

func (c *checker) server() {
	c.systemctl("start", "lockkeeper")
	c.command("z", "create", "/kept")
	c.systemctl("restart", "lockkeeper")
	c.command("z", "get", "/kept")
}

func (c *checker) waits() {
	c.systemctl("start", "orders")
	c.wantLine("held")
	c.systemctl("start", "--no-block", "second")
	c.within(soon, "second is in line", func() bool { return len(c.line()) == 2 })
	c.within(0, "second has not been started", func() bool { return state("second") == "inactive" })
	c.systemctl("stop", "orders")
	c.within(soon, "second runs when orders has stopped", func() bool { return state("second") == "active" })
	c.within(soon, "the lock unit of orders has stopped without a failure", func() bool { return state("lockkeeper-lock@orders") == "inactive" })
	c.wantLine("held")
	c.systemctl("stop", "second")
	c.within(soon, "the lock is free", func() bool { return len(c.line()) == 0 })
}

func (c *checker) killed() {
	c.systemctl("start", "orders")
	c.systemctl("kill", "--kill-whom=main", "--signal=KILL", "orders")
	c.within(soon, "the lock is free", func() bool { return len(c.line()) == 0 })
}

func (c *checker) broken() {
	c.systemctl("start", "orders")
	c.command("break", "--force", "orders")
	c.within(soon, "the service has ended", func() bool { return state("orders") == "failed" })
}

func (c *checker) cutOff() {
	c.systemctl("start", "orders")
	server := mainPid("lockkeeper")
	expires := time.Now().Add(sessionTimeout)
	syscall.Kill(server, syscall.SIGSTOP)
	defer syscall.Kill(server, syscall.SIGCONT)
	c.within(patient, "the service has ended", func() bool { return state("orders") == "failed" })
	if late := time.Since(expires); late > 0 {
		c.fail("the service has ended %v after the session could expire", late)
	}
}

func (c *checker) holderKilled() {
	c.systemctl("start", "orders")
	c.systemctl("kill", "--kill-whom=main", "--signal=KILL", "lockkeeper-lock@orders")
	c.within(patient, "the service has ended", func() bool { return state("orders") == "failed" })
	c.within(patient, "the lock is free", func() bool { return len(c.line()) == 0 })
}

func (c *checker) upheld() {
	c.systemctl("start", "upholds.target")
	c.within(soon, "the service runs", func() bool { return state("orders") == "active" })
	first := mainPid("orders")
	c.command("break", "--force", "orders")
	c.within(patient, "the service runs again", func() bool { return state("orders") == "active" && mainPid("orders") != first })
	c.wantLine("held")
}

func (c *checker) direct() {
	c.systemctl("start", "notifies", "scheduler")
	for _, path := range []string{"/lockkeeper/locks/notifies", "/lockkeeper/elections/scheduler"} {
		c.within(soon, path+" is held", func() bool { return len(c.lineOf(path)) == 1 })
	}
	c.systemctl("stop", "notifies", "scheduler")
	for unit, path := range map[string]string{"notifies": "/lockkeeper/locks/notifies", "scheduler": "/lockkeeper/elections/scheduler"} {
		c.within(0, unit+" has stopped without a failure", func() bool { return state(unit) == "inactive" })
		c.within(0, path+" is free", func() bool { return len(c.lineOf(path)) == 0 })
	}
}

func (c *checker) fail(format string, args ...any) {
	c.violations++
	fmt.Printf("     "+format+"\n", args...)
}

// within waits for something to be so.
func (c *checker) within(limit time.Duration, what string, is func() bool) {
	for deadline := time.Now().Add(limit); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.fail("not within %v: %s", limit, what)
			return
		}
	}
}

// systemctl runs a command that has to succeed.
func (c *checker) systemctl(args ...string) {
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		c.fail("systemctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// command runs lockkeeper.
func (c *checker) command(args ...string) (stdout []byte) {
	cmd := exec.Command(inside+"/lockkeeper", args...)
	cmd.Env = append(os.Environ(), "LOCKKEEPER_SERVERS="+servers)
	stdout, err := cmd.Output()
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		c.fail("lockkeeper %s: %v\n%s", strings.Join(args, " "), err, failed.Stderr)
	case err != nil:
		c.fail("lockkeeper: %v", err)
	}
	return stdout
}

// line returns the states of those in line for the lock of the services.
func (c *checker) line() []string { return c.lineOf("/lockkeeper/locks/orders") }

func (c *checker) lineOf(path string) (states []string) {
	var all []struct {
		Path       string
		Contenders []struct{ State string }
	}
	err := json.Unmarshal(c.command("locks", "--json"), &all)
	if err != nil {
		c.fail("locks --json: %v", err)
	}
	for _, l := range all {
		for _, contender := range l.Contenders {
			if l.Path == path {
				states = append(states, contender.State)
			}
		}
	}
	return states
}

func (c *checker) wantLine(want ...string) {
	got := c.line()
	if !slices.Equal(got, want) {
		c.fail("in line for the lock: %v, want %v", got, want)
	}
}

// state returns whether a unit is active, inactive, failed or between two of them.
func state(unit string) string { return property(unit, "ActiveState") }

func mainPid(unit string) int {
	pid, err := strconv.Atoi(property(unit, "MainPID"))
	if err != nil {
		return -1
	}
	return pid
}

func property(unit, name string) string {
	out, _ := exec.Command("systemctl", "show", "--value", "--property="+name, unit).Output() // without an answer it is empty
	return strings.TrimSpace(string(out))
}
