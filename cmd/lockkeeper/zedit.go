package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

func (e *zEnv) newEdit() *cobra.Command {
	return &cobra.Command{
		Use: "edit PATH",
		Example: `  lockkeeper z edit /app/config
  lockkeeper z edit --servers zk1:2181 /app/config`,
		Short: "Edit the data of a znode with $VISUAL or $EDITOR",
		Long: `Edit the data of a znode with $VISUAL or $EDITOR, else vi. If the znode has changed by
the time that the editor ends, nothing is written. Text that could not be written is kept
in a file, which edit names. ^C is for the editor while it runs.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			return e.edit(cmd, p)
		},
	}
}

// edit has no session while the editor runs: what becomes of servers meanwhile does not end it.
func (e *zEnv) edit(cmd *cobra.Command, p string) error {
	shown := ztree.Escape(p)
	var data []byte
	var st zk.Stat
	err := e.do(cmd, func(ctx context.Context, s *client.Session) (err error) {
		data, st, err = s.Get(ctx, p)
		return err
	})
	if err != nil {
		return err
	}
	file, err := editedFile(data)
	if err != nil {
		return exit.Errorf(exit.OS, "edit %s: %w", shown, err)
	}
	failed := runEditor(file)
	edited, err := os.ReadFile(file)
	if err != nil {
		return exit.Errorf(exit.OS, "edit %s: %w (the znode is as it was)", shown, err)
	}
	same := bytes.Equal(edited, data)
	if same {
		os.Remove(file)
	}
	switch {
	case failed != nil && same:
		return exit.Errorf(exit.StatusOf(failed, exit.Failure), "edit %s: %w (the znode is as it was)", shown, failed)
	case failed != nil:
		return exit.Errorf(exit.StatusOf(failed, exit.Failure), "edit %s: %w (the znode is as it was, and the edited text is in %s)", shown, failed, file)
	case same && e.asJSON:
		return e.line(editedJSON{newStatJSON(p, &st), false})
	case same:
		e.notef("%s is unchanged", shown)
		return nil
	}
	version := st.Version
	err = e.do(cmd, func(ctx context.Context, s *client.Session) (err error) {
		now, there, err := s.Exists(ctx, p)
		switch {
		case err != nil:
			return err
		case there && now.Mzxid != st.Mzxid: // deleted and made again, it may have the same version
			return zk.ErrBadVersion
		}
		st, err = s.Set(ctx, p, edited, version)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode):
		return exit.Errorf(exit.Failure, "edit %s: the znode was changed or deleted meanwhile; nothing has been written, and the edited text is in %s", shown, file)
	case err != nil: // not wrapped: an interruption is not shown, and this is to be
		return exit.Errorf(exit.StatusOf(err, exit.Unreachable), "edit %s: %v (the edited text is in %s)", shown, err, file)
	}
	os.Remove(file)
	if e.asJSON {
		return e.line(editedJSON{newStatJSON(p, &st), true})
	}
	e.notef("%s written", shown)
	return nil
}

// An editedJSON is a znode that was edited, as --json shows it.
type editedJSON struct {
	statJSON
	Written bool `json:"written"` // false if the editor has changed nothing
}

// editedFile makes the file that the editor gets.
func editedFile(data []byte) (name string, err error) {
	f, err := os.CreateTemp("", "lockkeeper-edit-*") // readable by its user alone
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return f.Name(), err
}

// runEditor has the user's editor edit a file. The variable may have arguments in it. The editor alone decides when it
// ends: INT and QUIT are keys of the editor, and TERM and HUP are an error once the editor has ended.
func runEditor(file string) error {
	editor := "vi"
	for _, name := range []string{"EDITOR", "VISUAL"} {
		if v := os.Getenv(name); v != "" {
			editor = v
		}
	}
	keys, ended := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(keys, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(keys)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(ended)
	cmd := exec.Command("/bin/sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	select {
	case sig := <-ended:
		return exit.Errorf(exit.SignalBase+int(sig.(syscall.Signal)), "%v", sig)
	default:
	}
	if err != nil {
		return fmt.Errorf("the editor failed: %w", err)
	}
	return nil
}
