package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"

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
the time that the editor ends, nothing is written, and the edited file is kept.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error { return e.edit(ctx, s, p) })
		},
	}
}

func (e *zEnv) edit(ctx context.Context, s *client.Session, p string) (err error) {
	shown := ztree.Escape(p)
	data, st, err := s.Get(ctx, p)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "lockkeeper-edit-*") // readable by its user alone
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := runEditor(ctx, f.Name()); err != nil {
		return exit.Errorf(exit.Failure, "edit %s: the editor failed: %w (the znode is as it was)", shown, err)
	}
	edited, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	if bytes.Equal(edited, data) {
		if e.asJSON {
			return e.line(editedJSON{newStatJSON(p, &st), false})
		}
		e.notef("%s is unchanged", shown)
		return nil
	}
	st, err = s.Set(ctx, p, edited, st.Version)
	switch {
	case errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode):
		keep = true
		return exit.Errorf(exit.Failure, "edit %s: the znode was changed or deleted meanwhile; nothing has been written, and the edited text is in %s", shown, f.Name())
	case err != nil:
		keep = true
		return exit.Errorf(exit.StatusOf(zStatus(err), exit.Unreachable), "%w (the edited text is in %s)", err, f.Name())
	}
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

// runEditor has the user's editor edit a file. The variable may have arguments in it.
func runEditor(ctx context.Context, file string) error {
	editor := "vi"
	for _, name := range []string{"EDITOR", "VISUAL"} {
		if v := os.Getenv(name); v != "" {
			editor = v
		}
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
