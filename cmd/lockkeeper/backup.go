package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/backup"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

// backupRetry is how long after a backup that failed the next is made, at most, by one that makes them every so often.
const backupRetry = 10 * time.Minute

// backupFlags are the flags of backup.
type backupFlags struct {
	access         access.Settings // for the admin port
	admin          string
	logDir, to     string
	every, timeout time.Duration
	keep           int
	asJSON         bool
}

func newBackup() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "backup [DIR] --to BACKUPS",
		Short: "Back up what a server has stored, while it runs",
		Long: `Copy the newest snapshot and the logs behind it out of the data directory DIR, of this
server or of Apache ZooKeeper, into a new directory below BACKUPS. The server may run or
be stopped, and is not asked. The copy holds all that was acknowledged before, and the
beginning of what comes meanwhile. It is read as a server reads it before it gets its
name and its manifest: zxid, number of znodes, size and SHA-256 of each file.

--admin takes a snapshot from the admin port of Apache ZooKeeper 3.9 or later instead,
with a digest credential of --auth-file. Changes that are made while the server writes
it may be in it or not, each for itself; files have no such gap.

--every makes backups until it is told to end, beside the server; --keep deletes the
oldest backups of the same source. Under cron or a systemd timer leave --every out.

A backup holds all znodes with their data and ACLs, and the secret that our server makes
session passwords with: keep it as you keep the data. It takes as much memory as a server
needs for the data.

Exit status: 0 done, 1 it failed (the message says why, and names the backup if that is
whole, and only an older one could not be deleted), 64 wrong usage, 77 the admin port
refuses the credentials.`,
		Example: `  lockkeeper backup /var/lib/zookeeper --to /backup/zookeeper --keep 7
  lockkeeper backup /var/lib/lockkeeper --to /backup/lockkeeper --every 24h --keep 7
  lockkeeper backup --admin http://zk1:8080 --auth-file /etc/lockkeeper/admin --to /backup/zk`,
		Args: wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := f.source(args, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			if f.every > 0 {
				return f.repeat(ctx, cmd, src)
			}
			return orInterrupted(ctx, f.once(ctx, cmd, src))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "`directory` that the backup is put into, under a name with the time")
	flags.StringVar(&f.logDir, "log-dir", "", "`directory` of the logs, if they are apart (dataLogDir)")
	flags.StringVar(&f.admin, "admin", "", "`URL` of an admin port, as http://zk1:8080")
	flags.DurationVar(&f.every, "every", 0, "make a backup each time that this long has passed")
	flags.IntVar(&f.keep, "keep", 0, "how many backups of this source to keep; 0 is all")
	flags.DurationVar(&f.timeout, "timeout", time.Hour, "how long one backup may take")
	for _, flag := range sessionFlags {
		flags.Var((*accessValue)(flag.of(&f.access)), flag.name, "for --admin: "+flag.usage)
	}
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

// everyLeast is the shortest time from one backup to the next.
const everyLeast = time.Second

// source returns what is to be backed up. given reports whether a flag has been given.
func (f *backupFlags) source(args []string, given func(string) bool) (backup.Source, error) {
	logs := given("log-dir")
	fail := func(format string, words ...any) (backup.Source, error) {
		return nil, exit.Errorf(exit.Usage, "backup: "+format, words...)
	}
	switch {
	case f.to == "":
		return fail("--to is missing: where the backups go")
	case (len(args) == 1) == (f.admin != ""):
		return fail("what is backed up is either a data directory or --admin URL")
	case given("every") && f.every < everyLeast:
		return fail("--every %v: want at least %v", f.every, everyLeast)
	case f.keep < 0:
		return fail("--keep %d: is negative; 0 keeps all", f.keep)
	case f.timeout <= 0:
		return fail("--timeout %v: want more than 0", f.timeout)
	case f.admin != "" && logs:
		return fail("--log-dir is for a data directory")
	}
	for _, flag := range sessionFlags {
		if f.admin == "" && given(flag.name) {
			return fail("--%s is for --admin: files are read without the server", flag.name)
		}
	}
	var err error
	if f.to, err = filepath.Abs(f.to); err != nil {
		return fail("--to %s: %w", f.to, err)
	}
	if f.admin != "" {
		return f.adminSource()
	}
	var d backup.DataDir
	if d.Dir, err = filepath.Abs(args[0]); err != nil {
		return fail("%s: %w", args[0], err)
	}
	if logs {
		if d.LogDir, err = filepath.Abs(f.logDir); err != nil {
			return fail("--log-dir %s: %w", f.logDir, err)
		}
		d.NoLogs = d.LogDir == d.Dir
	}
	for _, dir := range []string{d.Dir, d.LogDir} {
		switch {
		case filepath.Base(dir) == "version-2":
			return fail("%s: name the directory above it", dir)
		case dir != "" && strings.HasPrefix(f.to+"/", dir+"/"):
			return fail("--to %s: lies within %s, which is backed up: name a directory elsewhere", f.to, dir)
		}
	}
	return d, nil
}

// adminSource returns the admin port.
func (f *backupFlags) adminSource() (backup.Source, error) {
	u, err := url.Parse(f.admin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, exit.Errorf(exit.Usage, "backup: --admin %s: an admin port is http://HOST:PORT or https://HOST:PORT", f.admin)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/commands")
	if err := f.access.Check(); err != nil {
		return nil, exit.Errorf(exit.Usage, "backup: %w", err)
	}
	if f.access.TLS() && u.Scheme == "http" {
		return nil, exit.Errorf(exit.Usage, "backup: --admin %s: the --tls flags are for https", f.admin)
	}
	opt, err := f.access.ClientOptions(client.Options{}, notice)
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "backup: %w", err)
	}
	a := backup.Admin{URL: u.Scheme + "://" + u.Host + u.Path}
	for _, auth := range opt.Auth {
		if auth.Scheme == "digest" {
			a.Credentials = string(auth.Credential)
			break
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // as for all other ports of a server
	if f.access.TLS() {
		transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return opt.Dial(ctx, network, address)
		}
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	a.Client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the credentials are for this server
	}}
	return a, nil
}

// A backupLine is what --json prints of a backup.
type backupLine struct {
	Path string `json:"path"`
	*backup.Manifest
	Deleted []string `json:"deleted,omitempty"`
}

// once makes one backup.
func (f *backupFlags) once(ctx context.Context, cmd *cobra.Command, src backup.Source) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not done within %v", f.timeout))
	defer cancel()
	path, m, err := backup.Make(ctx, src, f.to)
	if err != nil {
		status := exit.Failure
		if errors.Is(err, backup.ErrNotPermitted) {
			status = exit.NotPermitted
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return exit.Errorf(status, "backup of %v: %w", src, err)
	}
	line := backupLine{Path: path, Manifest: m}
	if f.keep > 0 {
		if line.Deleted, err = backup.Prune(f.to, src, f.keep, path); err != nil {
			return exit.Errorf(exit.Failure, "backup of %v: %s is whole, but an older one could not be deleted: %w", src, path, err)
		}
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), line)
	}
	deleted := ""
	if n := len(line.Deleted); n > 0 {
		deleted = fmt.Sprintf("; %s deleted", counted(n, "older backup"))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s%s\n", path, contentText(m), deleted)
	return err
}

// contentText says what is in a backup.
func contentText(m *backup.Manifest) string {
	return fmt.Sprintf("zxid %v, %s (%d ephemeral), %s, %s in %s", m.Zxid, counted(m.Znodes, "znode"), m.Ephemerals,
		counted(m.Sessions, "session"), counted(m.Bytes(), "byte"), counted(len(m.Files), "file"))
}

// repeat makes backups until ctx ends. One that fails is said, and made again soon.
func (f *backupFlags) repeat(ctx context.Context, cmd *cobra.Command, src backup.Source) error {
	last, err := backup.Newest(f.to, src)
	wait := time.Duration(0)
	if err == nil && !last.IsZero() {
		wait = min(max(0, f.every-time.Since(last)), f.every) // one that is started again makes no more backups; the clock may have been ahead
	}
	for {
		select {
		case <-ctx.Done():
			return nil // that is how it ends
		case <-time.After(wait):
		}
		wait = f.every
		err := f.once(ctx, cmd, src)
		switch {
		case ctx.Err() != nil:
			return nil
		case outputFailed(err):
			return err
		case err != nil:
			wait = min(f.every, backupRetry)
			notice(fmt.Sprintf("%v; the next attempt is in %v", err, wait))
		}
	}
}
