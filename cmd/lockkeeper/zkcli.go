package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zkcli"
	"github.com/lockkeeper/lockkeeper/internal/serverlist"
)

func newZkcli() *cobra.Command {
	var flags accessFlags
	cmd := &cobra.Command{
		Use:   "zkcli [-server HOST:PORT] [COMMAND]",
		Short: "Take the lines of ZooKeeper's zkCli, and answer in its words",
		Long: `Take the lines of ZooKeeper's zkCli, and answer in its words, without a JVM:

    lockkeeper zkcli -server zk1:2181 ls /
    lockkeeper zkcli < script

It has the verbs, their options, output and exit status of the zkCli of 3.8. Lines are
read from standard input unless a command is given. rmr is understood as deleteall.
reconfig, -r and -client-configuration are not offered. lockkeeper shell can do more.

Exit status of the command, or of the last line before quit: 0 done, 1 it failed, 127
there is no such command; 64 wrong usage of zkcli itself, 69 no server could be reached.`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, timeout, err := zkcliFlags(args)
			if err != nil {
				return exit.Errorf(exit.Usage, "zkcli: %w (see lockkeeper zkcli --help)", err)
			}
			cmd.DisableFlagParsing = false
			cmd.Flags().SetInterspersed(false) // what stands behind the command's verb is the verb's
			if err := cmd.ParseFlags(args); err != nil {
				return cmd.FlagErrorFunc()(cmd, err)
			}
			if help, _ := cmd.Flags().GetBool("help"); help {
				return cmd.Help()
			}
			to, err := flags.settings()
			if err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			return orInterrupted(ctx, runZkcli(ctx, to, timeout, cmd.Flags().Args(), cmd.OutOrStdout()))
		},
	}
	flags.addTo(cmd, sessionFlags)
	return cmd
}

// zkcliFlags turns zkCli's own flags, which have one dash, into ours.
func zkcliFlags(args []string) (ours []string, timeout time.Duration, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name := args[0]
		switch name {
		case "-server", "-timeout":
			if len(args) < 2 {
				return nil, 0, fmt.Errorf("%s wants a value", name)
			}
			if name == "-server" {
				ours = append(ours, "--servers", args[1])
			} else {
				ms, err := strconv.ParseInt(args[1], 10, 32)
				if err != nil || ms <= 0 {
					return nil, 0, fmt.Errorf("-timeout %s: it is a number of milliseconds", args[1])
				}
				timeout = time.Duration(ms) * time.Millisecond
			}
			args = args[2:]
		case "-waitforconnection": // always
			args = args[1:]
		case "-r":
			return nil, 0, errors.New("-r: read-only sessions are not offered")
		case "-client-configuration":
			return nil, 0, errors.New("-client-configuration: Java's client configuration is not read here; TLS and credentials are given with --tls-ca, --tls-cert, --auth-file")
		default: // ours, with its value
			n := 1
			if len(args) > 1 && strings.HasPrefix(name, "--") && !strings.Contains(name, "=") && name != "--help" {
				n = 2
			}
			ours, args = append(ours, args[:n]...), args[n:]
		}
	}
	return append(ours, args...), timeout, nil
}

// runZkcli runs one command, or the lines of standard input.
func runZkcli(ctx context.Context, to access.Settings, timeout time.Duration, command []string, out io.Writer) error {
	version := readVersion().String()
	cli := &zkcli.CLI{Out: out, Err: os.Stderr, Screen: term.IsTerminal(int(os.Stdout.Fd())), Version: version, Begun: "Connecting to %s\n"}
	limit := cmp.Or(to.ConnectTimeout, connectTimeoutDefault)
	cli.WhileServed = func(ctx context.Context, s *client.Session) (context.Context, func()) {
		return whileServed(ctx, s, limit)
	}
	cli.Open = func(ctx context.Context, servers string) (*client.Session, error) {
		if servers != to.Servers {
			if err := serverlist.Check(servers); err != nil {
				return nil, err
			}
		}
		to := to
		to.Servers = servers
		ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("no answer within "+limit.String()))
		defer cancel()
		s, _, err := openSession(ctx, to, client.Options{SessionTimeout: timeout}, limit, notice)
		return s, err
	}
	defer func() { cli.Close(context.WithoutCancel(ctx)) }()
	if len(command) > 0 {
		if err := cli.Connect(ctx, to.Servers); err != nil {
			return err
		}
		cli.Run(ctx, command)
		return ended(cli)
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
		cli.Begun += "Welcome to ZooKeeper!\nJLine support is disabled\n"
		if err := cli.Connect(ctx, to.Servers); err != nil {
			return err
		}
		lines := bufio.NewReader(os.Stdin)
		for {
			line, err := lineUntil(ctx, func() (string, error) { return lines.ReadString('\n') })
			if line != "" {
				if quit := cli.Line(ctx, line); quit != nil || ctx.Err() != nil {
					return ended(cli)
				}
			}
			if path := (*os.PathError)(nil); errors.As(err, &path) {
				return exit.Errorf(exit.OS, "%w", path)
			}
			if err != nil {
				return ended(cli)
			}
		}
	}
	editor := newLineEditor(historyFile("zkcli-history"))
	cli.Out, cli.Err = editor, editor
	cli.Begun += "Welcome to ZooKeeper!\n"
	if err := cli.Connect(ctx, to.Servers); err != nil {
		return err
	}
	for {
		prompt := fmt.Sprintf("[zk: %s(%s) %d] ", cli.Servers, cli.Connected(), cli.Lines())
		line, err := lineUntil(ctx, func() (string, error) { return editor.readLine(prompt) })
		if err != nil {
			editor.restore()
			return ended(cli)
		}
		if quit := cli.Line(ctx, line); quit != nil {
			return ended(cli)
		}
	}
}

// ended returns what zkcli ends with.
func ended(cli *zkcli.CLI) error {
	if status := cli.Status(); status != exit.OK {
		return &ranError{Outcome: front.Outcome{Status: status}}
	}
	return nil
}

// lineUntil returns the line that read returns, or an error when ctx ends. The reader is left behind then, and the process ends.
func lineUntil(ctx context.Context, read func() (string, error)) (line string, err error) {
	done := make(chan struct{})
	var got string
	var failed error
	go func() {
		defer close(done)
		got, failed = read()
	}()
	select {
	case <-done:
		return got, failed
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
