package roll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
)

// Network is the World of real servers. Members are named by host and port for clients.
type Network struct {
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Session client.Options // of the session that each look opens
	Command Command
	Output  io.Writer // of the commands
}

// How long a member may take for a glance, and for a look.
const (
	glanceTimeout = 2 * time.Second
	lookTimeout   = 10 * time.Second
)

// Glance asks for srvr, and for mntr where that is allowed.
func (n *Network) Glance(ctx context.Context, member string) (State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, glanceTimeout, fmt.Errorf("no answer within %v", glanceTimeout))
	defer cancel()
	s := State{Synced: -1}
	status, err := fourletter.Ask(ctx, n.Dial, "tcp", member)
	if errors.Is(err, fourletter.ErrNotServing) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Mode, s.Received = status.Mode, status.Received
	if s.Zxid, err = strconv.ParseInt(strings.TrimPrefix(status.Zxid, "0x"), 16, 64); err != nil {
		return s, fmt.Errorf("its zxid is %q", status.Zxid)
	}
	values, err := fourletter.Word(ctx, n.Dial, "tcp", member, "mntr")
	if err != nil {
		return s, nil // refused, or gone since
	}
	for line := range strings.Lines(values) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "zk_synced_followers":
			s.Synced = int(number)
		case name == "zk_uptime":
			s.Uptime = time.Duration(number) * time.Millisecond
		}
	}
	return s, nil
}

// Look opens a session with the member, which is a transaction that a majority commits and the member applies, and
// reads the configuration that the member has.
func (n *Network) Look(ctx context.Context, member string) (State, error) {
	limit := min(cmp.Or(n.Session.ConnectTimeout, lookTimeout), lookTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	session, err := client.Open(ctx, member, n.Session)
	if err != nil {
		return State{}, fmt.Errorf("it gives no session: %w", err)
	}
	defer session.Close(ctx)
	config, _, err := session.Get(ctx, "/zookeeper/config")
	if err != nil {
		return State{}, fmt.Errorf("its configuration cannot be read: %w", err)
	}
	s, err := n.Glance(ctx, member)
	s.Members = canonical(string(config))
	return s, err
}

// canonical returns a configuration with its lines in order.
func canonical(config string) string {
	lines := strings.Split(strings.TrimSpace(config), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// Restart runs the command for a member.
func (n *Network) Restart(ctx context.Context, member string) error {
	text, err := n.Command.For(member)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", text)
	cmd.Stdout, cmd.Stderr = n.Output, n.Output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal: ssh that asks for a password fails at once, and does not stop
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", text, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// A Command is a shell command with places for a member: {host}, {port} and {address}.
type Command string

var place = regexp.MustCompile(`\{[a-z]*\}`)

// harmless is what may be put into a shell command unquoted.
var harmless = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]+$`)

// For returns the command for a member.
func (c Command) For(member string) (string, error) {
	host, port, err := net.SplitHostPort(member)
	if err != nil {
		return "", err
	}
	if !harmless.MatchString(member) || strings.HasPrefix(host, "-") {
		return "", fmt.Errorf("%q cannot be put into a shell command", member)
	}
	text := place.ReplaceAllStringFunc(string(c), func(name string) string {
		switch name {
		case "{host}":
			return host
		case "{port}":
			return port
		case "{address}":
			return member
		}
		err = fmt.Errorf("%s: not one of {host}, {port} and {address}", name)
		return name
	})
	if err == nil && text == string(c) {
		err = errors.New("it is the same for all members: it needs {host}, {port} or {address}")
	}
	return text, err
}
