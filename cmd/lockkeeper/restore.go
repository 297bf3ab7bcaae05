package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/backup"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

func newRestore() *cobra.Command {
	var logDir string
	var check, asJSON bool
	cmd := &cobra.Command{
		Use:   "restore BACKUP DIR",
		Short: "Put a backup into an empty data directory",
		Long: `Put a backup that lockkeeper backup made into the data directory DIR of a server that is
stopped, this server or Apache ZooKeeper. The files are compared with the manifest of the
backup and read as a server reads them, before they get their names. A directory with data
is refused, and so is half a backup, or one with a changed file. DIR may hold a myid, and
an empty version-2, which is replaced, if it is no symbolic link and no mount of a disk.

--check looks at the backup alone: lockkeeper restore --check BACKUP.

Exit status: 0 done, 1 the backup is not whole or the directory holds data (nothing was
restored), 64 wrong usage, 73 files that cannot be read or written.`,
		Example: `  lockkeeper restore /backup/zk/20261123T094000.000Z /var/lib/zookeeper
  lockkeeper restore --check /backup/zk/20261123T094000.000Z`,
		Args: wantArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			var m *backup.Manifest
			var err error
			switch {
			case check && len(args) == 2:
				return exit.Errorf(exit.Usage, "restore: --check looks at a backup alone: leave out %s", args[1])
			case check && cmd.Flags().Changed("log-dir"):
				return exit.Errorf(exit.Usage, "restore: --check looks at a backup alone: leave out --log-dir")
			case !check && len(args) == 1:
				return exit.Errorf(exit.Usage, "restore: the directory to restore to is missing (or --check)")
			case !check && filepath.Base(args[1]) == "version-2":
				return exit.Errorf(exit.Usage, "restore %s: name the directory above it", args[1])
			case check:
				m, err = backup.Check(ctx, args[0])
			default:
				m, err = backup.Restore(ctx, args[0], args[1], logDir)
			}
			if err != nil {
				status := exit.Failure
				if unusable(err) {
					status = exit.CannotCreate
				}
				return orInterrupted(ctx, exit.Errorf(status, "restore: %w", err))
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), m)
			}
			if check {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is whole: %s, made %s of %s\n", args[0], contentText(m), m.Made.Format("2006-01-02 15:04:05Z"), escaped(m.Source))
				return err
			}
			if _, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", args[1], contentText(m)); err == nil {
				_, err = fmt.Fprint(cmd.ErrOrStderr(), restoreAdvice)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&logDir, "log-dir", "", "`directory` for the logs, if they are apart (dataLogDir)")
	cmd.Flags().BoolVar(&check, "check", false, "check the backup, and restore nothing")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// unusable reports whether the operating system does not let a file be used, or has no room for it. One that is missing is half a backup.
func unusable(err error) bool {
	refused := errors.As(err, new(*fs.PathError)) || errors.As(err, new(*os.LinkError)) || errors.As(err, new(*os.SyscallError))
	return refused && !errors.Is(err, fs.ErrNotExist)
}

// restoreAdvice is what is left to do.
const restoreAdvice = `Before the server starts:
  - The files belong to the owner of the directory, if root ran this command: is that the server's user?
  - On an ensemble, stop all members, move version-2 of every member (and of its dataLogDir) away, and restore this
    backup on every member. A member with other data may lead, and its data then replaces the restored data.
  - What was written after the backup is gone, and zxids begin again there: restart all clients, and have
    resources that check fencing tokens forget those that they have seen.
`
