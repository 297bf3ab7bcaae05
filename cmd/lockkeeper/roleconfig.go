package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/zk"
)

// configsPath is where configuration is that has a name.
const configsPath = "/lockkeeper/config"

// A configLine is a configuration as JSON shows it.
type configLine struct {
	Path    string         `json:"path"`
	Version int32          `json:"version"`
	Changed time.Time      `json:"changed"`
	Writer  *config.Writer `json:"writer,omitempty"` // if it was written with config set or package config
	dataJSON
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Read, write, follow and delete configuration in a znode",
		Long: `Read, write, follow and delete configuration in a znode. PATH is a name below
` + configsPath + `, or the absolute path of a znode.`,
		Args: wantCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigGet(), newConfigSet(), newConfigWatch(), newConfigRm())
	return cmd
}

func newConfigGet() *cobra.Command {
	var flags accessFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "get PATH",
		Short:   "Print a configuration",
		Long:    "Print a configuration as it is stored, byte for byte. At a terminal, one that is not text is\nshown as a hex dump, and a newline is added. With --json its version and its writer are printed,\ntoo; \"text\" has what is UTF-8, and \"data\" other data in base64.\n\nExit status: 64 wrong usage, 66 there is none or it has no data,\n69 no server could be reached, 77 the servers refuse.",
		Example: "  lockkeeper config get orders\n  lockkeeper config get /apps/orders/config --json",
		Args:    wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withConfig(&flags, args[0], func(_ context.Context, _ *client.Keeper, path string, v *config.Value[[]byte]) error {
				st, _ := v.State()
				if len(st.Sources) == 0 {
					return exit.Errorf(exit.NoSuchLock, "config get %s: there is no such configuration, or it has no data", path)
				}
				screen := term.IsTerminal(int(os.Stdout.Fd()))
				if !asJSON && !screen {
					_, err := cmd.OutOrStdout().Write(st.Value)
					return err
				}
				return printConfig(cmd.OutOrStdout(), st, asJSON, screen)
			})
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, configsPath, 1)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON with the path, version and writer")
	return cmd
}

func newConfigSet() *cobra.Command {
	var flags accessFlags
	var version int32
	var label string
	cmd := &cobra.Command{
		Use:   "set PATH VALUE|-",
		Short: "Write a configuration",
		Long: `Write a configuration, which is created if it is missing. The value - is read from
standard input. With --version the configuration is only written if it still has that
version (see config get --json).

Exit status: 64 wrong usage, 69 no server could be reached, 75 it has another version,
77 the servers refuse.`,
		Example: "  lockkeeper config set orders '{\"rate\": 10}'\n  lockkeeper config set orders - --version 3 < orders.json",
		Args:    wantArgs(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := pathOf(args[0], "configuration", configsPath)
			if err != nil {
				return err
			}
			if err := wantVersion("config set "+path, version); err != nil {
				return err
			}
			data := []byte(args[1])
			if args[1] == "-" {
				data, err = io.ReadAll(io.LimitReader(standardInput(), dataBytesMax+1))
				if err != nil {
					return exit.Errorf(exit.OS, "config set %s: standard input: %w", path, err)
				}
				if len(data) == 0 {
					return exit.Errorf(exit.Usage, "config set %s: standard input is empty (the value '' empties a configuration)", path)
				}
				if len(data) > dataBytesMax {
					return exit.Errorf(exit.Usage, "config set %s: standard input has more than %d bytes, which no server takes", path, dataBytesMax)
				}
			}
			to, err := flags.settings()
			if err != nil {
				return err
			}
			expected := zk.AnyVersion
			if cmd.Flags().Changed("version") {
				expected = version
			}
			ctx, stop := interruptible()
			defer stop()
			err = flags.withKeeper(ctx, func(ctx context.Context, k *client.Keeper) error {
				ctx, cancel := flags.opening(ctx)
				defer cancel()
				err := config.Store(ctx, k, path, data, expected, config.StoreOptions{Label: label, ACL: to.MadeACL()})
				if expected != zk.AnyVersion && (errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode)) {
					return exit.Errorf(exit.Busy, "config set %s: it does not have version %d (see lockkeeper config get --json)", path, version)
				}
				return err
			})
			return orInterrupted(ctx, err)
		},
	}
	flags.addTo(cmd, makingFlags)
	flags.completeNames(cmd, configsPath, 1)
	cmd.Flags().Int32Var(&version, "version", 0, "write only if the configuration has version `N`; -1 is any")
	cmd.Flags().StringVar(&label, "label", "lockkeeper config set", "name of the writer, which config get --json shows")
	return cmd
}

func newConfigWatch() *cobra.Command {
	var flags accessFlags
	var asJSON bool
	var command string
	cmd := &cobra.Command{
		Use:   "watch PATH",
		Short: "Follow a configuration",
		Long: `Print a configuration, and print it again each time it changes, until a signal ends the
command. What does not end with a newline gets one. With --exec, a shell runs CMD each time instead. CMD has the configuration on
its standard input, and LOCKKEEPER_CONFIG_PATH and LOCKKEEPER_CONFIG_VERSION in its
environment. If the configuration changes several times while CMD runs, CMD runs once
more, with the last one. Nothing is printed or run while the configuration is missing.

Exit status: 64 wrong usage, 69 no server could be reached, 77 the servers refuse.`,
		Example: "  lockkeeper config watch orders --json\n  lockkeeper config watch orders --exec 'cat > /etc/orders.json && systemctl reload orders'",
		Args:    wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && command != "" {
				return exit.Errorf(exit.Usage, "config watch: --json and --exec: nothing is printed while a command runs instead")
			}
			if command == "" {
				endWithReader(cmd.OutOrStdout())
			}
			return withConfig(&flags, args[0], func(ctx context.Context, k *client.Keeper, path string, v *config.Value[[]byte]) error {
				defer tellOutages(ctx, k, flags.log.notice)()
				return watchConfig(ctx, path, v, flags.log, func(st config.State[[]byte]) error {
					if command == "" {
						return printConfig(cmd.OutOrStdout(), st, asJSON, term.IsTerminal(int(os.Stdout.Fd())))
					}
					err := execConfig(ctx, command, st)
					if err != nil && ctx.Err() == nil {
						flags.log.notice(fmt.Sprintf("config watch %s: --exec: %v", path, err))
					}
					return nil
				})
			})
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.addLogTo(cmd)
	flags.completeNames(cmd, configsPath, 1)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.Flags().StringVar(&command, "exec", "", "shell command `CMD` to run for each configuration")
	return cmd
}

func newConfigRm() *cobra.Command {
	var flags accessFlags
	cmd := &cobra.Command{
		Use:   "rm PATH",
		Short: "Delete a configuration",
		Long: `Delete a configuration, without a question. Programs that follow it keep what they have.
A znode that has others below it is left as it is.

Exit status: 1 there are znodes below it, 64 wrong usage, 66 there is none, 69 no server
could be reached, 75 it has changed meanwhile, 77 the servers refuse.`,
		Example: "  lockkeeper config rm orders",
		Args:    wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := pathOf(args[0], "configuration", configsPath)
			if err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			err = flags.withSession(ctx, func(ctx context.Context, s *client.Session) error { return removeConfig(ctx, s, path) })
			return orInterrupted(ctx, err)
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, configsPath, 1)
	return cmd
}

// configWriter is where package config has the writer of the znode above.
const configWriter = "_writer"

// removeConfig deletes a configuration with its writer.
func removeConfig(ctx context.Context, s *client.Session, path string) error {
	_, there, err := s.Exists(ctx, path)
	if err != nil {
		return err
	}
	if !there {
		return exit.Errorf(exit.NoSuchLock, "config rm %s: there is no such configuration", path)
	}
	writer := zk.Join(path, configWriter)
	_, there, err = s.Exists(ctx, writer)
	if err != nil {
		return err
	}
	ops := []client.Op{client.OpDelete(path, zk.AnyVersion)}
	if there {
		ops = []client.Op{client.OpDelete(writer, zk.AnyVersion), ops[0]}
	}
	_, err = s.Multi(ctx, ops...)
	switch {
	case errors.Is(err, zk.ErrNotEmpty):
		return exit.Errorf(exit.Failure, "config rm %s: there are znodes below it, which lockkeeper z rm -r deletes as well", path)
	case errors.Is(err, zk.ErrNoNode):
		return exit.Errorf(exit.Busy, "config rm %s: it has changed meanwhile, and was not deleted", path)
	}
	return err
}

// withConfig opens the configuration that the user calls name, and closes it after do.
func withConfig(flags *accessFlags, name string, do func(context.Context, *client.Keeper, string, *config.Value[[]byte]) error) error {
	path, err := pathOf(name, "configuration", configsPath)
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	err = flags.withKeeper(ctx, func(ctx context.Context, k *client.Keeper) error {
		opening, cancel := flags.opening(ctx)
		defer cancel()
		v, err := config.Open(opening, k, []string{path}, config.Options[[]byte]{
			Decode:   func(data []byte, value *[]byte) error { *value = slices.Clone(data); return nil },
			Optional: true, Logger: flags.log.client(),
		})
		if err != nil {
			return err
		}
		defer v.Close(context.WithoutCancel(ctx))
		return do(ctx, k, path, v)
	})
	return orInterrupted(ctx, err)
}

// watchConfig calls show with each configuration that comes into force.
func watchConfig(ctx context.Context, path string, v *config.Value[[]byte], log *roleLog, show func(config.State[[]byte]) error) error {
	var last int64 = -1 // Mzxid of what was shown
	for st, err := range v.Changes(ctx) {
		switch {
		case err != nil:
			return err
		case len(st.Sources) == 0 && last != 0:
			log.notice("config watch " + path + ": it does not exist, or has no data (waiting for it)")
			last = 0
		case len(st.Sources) > 0 && st.Sources[0].Stat.Mzxid != last:
			last = st.Sources[0].Stat.Mzxid
			err := show(st)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// printConfig prints a configuration so that the next one begins on a line of its own.
func printConfig(w io.Writer, st config.State[[]byte], asJSON, screen bool) error {
	if asJSON {
		src := st.Sources[0]
		line := configLine{Path: src.Path, Version: src.Stat.Version, Changed: time.UnixMilli(src.Stat.Mtime), Writer: src.Writer}
		line.setData(st.Value)
		return json.NewEncoder(printable.JSON(w)).Encode(line)
	}
	data := st.Value
	if screen && !ztree.IsText(data) {
		data = []byte(hex.Dump(data))
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(slices.Clone(data), '\n')
	}
	_, err := w.Write(data)
	return err
}

// execConfig runs a shell command with a configuration on its standard input. When ctx ends, all processes of the command are told to
// end, and killed if they do not.
func execConfig(ctx context.Context, command string, st config.State[[]byte]) error {
	src := st.Sources[0]
	c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(st.Value), os.Stdout, os.Stderr
	c.Env = append(os.Environ(), "LOCKKEEPER_CONFIG_PATH="+src.Path, "LOCKKEEPER_CONFIG_VERSION="+strconv.Itoa(int(src.Stat.Version)))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = roleCloseTimeout
	err := c.Run()
	if ctx.Err() != nil {
		killGroup(c.Process)
	}
	return err
}
