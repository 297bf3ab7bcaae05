package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ensemble"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zoocfg"
)

// growTimeoutDefault is how long members may take to start and to find each other.
const growTimeoutDefault = 2 * time.Minute

// growFlags are the flags of ensemble grow.
type growFlags struct {
	specFlags
	source        ensemble.Source
	out           string
	start, verify bool
	classPath     string
	timeout       time.Duration
	asJSON        bool

	server string // where the source's clients are served, if its zoo.cfg says so
}

func newEnsembleGrow() *cobra.Command {
	var f growFlags
	formats := []string{ensemble.FormatLocal, ensemble.FormatSystemd, ensemble.FormatCompose}
	cmd := &cobra.Command{
		Use:   "grow --from DIR [[ID=]HOST[:CLIENTPORT[:QUORUMPORT:ELECTIONPORT]]…]",
		Short: "Turn a single server's data into an ensemble, without losing any",
		Long: `Turn the data of a single server, ours or Apache ZooKeeper's, into an ensemble of Apache
ZooKeeper. The server has to be stopped. DIR is its data directory, or its zoo.cfg.

1. lockkeeper ensemble grow --from DIR zk1 zk2 zk3
   writes a directory for each member, as ensemble init does, each with a copy of the data that
   was synced and read again. The members may be started in any order: one without its data
   takes part in no election.
2. Start the members. They have another port for clients, ten thousand higher, so no client comes in.
3. lockkeeper ensemble grow --verify
   asks each member for its role, its zxid, its count of znodes and the znode that was written last. If
   all have what the source had, it writes the zoo.cfg with the port for clients.
4. Restart the members with that.

Without hosts the members are on this machine, and --start does all four steps. The source is not
changed. Do not start its server again: clients would be served by both.

Exit status: 0, 1 a member lacks data or does not serve, 64 wrong usage, 73 the source is in
use or not whole, or the copies cannot be written, 130 interrupted.`,
		Example: `  lockkeeper ensemble grow --from /var/lib/lockkeeper --start
  lockkeeper ensemble grow --from zoo.cfg --data-dir /var/lib/zk-ensemble zk1 zk2 zk3
  lockkeeper ensemble grow --verify`,
		RunE: func(cmd *cobra.Command, hosts []string) error {
			ctx, stop := interruptible()
			defer stop()
			return f.run(ctx, cmd, hosts, formats)
		},
	}
	f.addTo(cmd, formats...)
	flags := cmd.Flags()
	flags.StringVar(&f.source.Dir, "from", "", "data directory of the single server, or its zoo.cfg")
	flags.StringVar(&f.source.LogDir, "log-dir", "", "where its logs are, if they are apart (dataLogDir)")
	flags.BoolVar(&f.source.NoLogs, "no-logs", false, "a source with a snapshot and no logs has lost none, as in a backup")
	flags.StringVar(&f.out, "out", "ensemble", "directory to write; new or empty")
	flags.BoolVar(&f.start, "start", false, "start the members on this machine, verify them, and let clients in")
	flags.BoolVar(&f.verify, "verify", false, "verify members that have been started, and write the zoo.cfg that lets clients in")
	flags.StringVar(&f.classPath, "class-path", "", "--start: the jars of Apache ZooKeeper (default Debian's)")
	flags.DurationVar(&f.timeout, "timeout", growTimeoutDefault, "how long members may take to start and find each other")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f *growFlags) run(ctx context.Context, cmd *cobra.Command, hosts, formats []string) error {
	given := cmd.Flags().Changed
	if err := f.check(given, hosts); err != nil {
		return exit.Errorf(exit.Usage, "ensemble grow: %w", err)
	}
	out, err := filepath.Abs(f.out)
	if err != nil {
		return exit.Errorf(exit.Usage, "ensemble grow: --out: %w", err)
	}
	var p *ensemble.Plan
	if f.source.Dir != "" {
		p, err = f.grow(ctx, hosts, formats)
	} else {
		p, err = ensemble.LoadPlan(out)
		if err != nil {
			err = exit.Errorf(exit.CannotCreate, "%w", err)
		}
	}
	if err != nil {
		return orInterrupted(ctx, exit.Errorf(exit.StatusOf(err, exit.CannotCreate), "ensemble grow: %w", err))
	}
	if !f.start && !f.verify {
		notice("ensemble grow: all members have a copy\n" + p.Next(f.out))
		return nil
	}
	return f.bringUp(ctx, cmd, p)
}

// check refuses what does not go together.
func (f *growFlags) check(given func(string) bool, hosts []string) error {
	switch {
	case f.source.Dir == "" && !f.start && !f.verify:
		return errors.New("--from DIR: name the data directory of the single server (or --verify, for an ensemble that has its data)")
	case f.start && f.verify:
		return errors.New("--start verifies, too: leave out --verify")
	case f.source.Dir != "" && f.verify:
		return errors.New("--from copies the data, and --verify comes when the members have been started: one after the other")
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %v: want more than 0", f.timeout)
	}
	if f.source.Dir == "" {
		for _, name := range []string{"format", "members", "tls", "set", "data-dir", "conf-dir", "heap", "image", "log-dir", "no-logs"} {
			if given(name) || len(hosts) > 0 {
				return errors.New("hosts and the flags that describe members go with --from; --verify and --start without it have them from grow.json")
			}
		}
	}
	return nil
}

// grow copies the data.
func (f *growFlags) grow(ctx context.Context, hosts, formats []string) (*ensemble.Plan, error) {
	if err := f.readConfig(); err != nil {
		return nil, exit.Errorf(exit.Usage, "%s", printable.Text(err.Error()))
	}
	s, err := f.complete(f.out, hosts, formats)
	if err != nil { // it may be a setting of the file
		return nil, exit.Errorf(exit.Usage, "%s", printable.Text(err.Error()))
	}
	if f.start {
		if s.Format != ensemble.FormatLocal {
			return nil, exit.Errorf(exit.Usage, "--start is for members on this machine (without hosts, or with --format local)")
		}
		if err := f.runner().Check(); err != nil {
			return nil, err
		}
	}
	for _, dir := range []*string{&f.source.Dir, &f.source.LogDir} {
		if *dir == "" {
			continue
		}
		if *dir, err = filepath.Abs(*dir); err != nil {
			return nil, err
		}
	}
	if err := ensemble.Empty(s.Out); err != nil {
		return nil, err
	}
	var others []string
	if f.server != "" {
		others = append(others, f.server)
	}
	if err := s.Silent(ctx, others...); err != nil {
		return nil, err
	}
	return ensemble.Grow(ctx, s, f.source, func(text string) { notice("ensemble grow: " + text) })
}

// readConfig takes directories and times from a zoo.cfg, if that is what --from names.
func (f *growFlags) readConfig() error {
	info, err := os.Stat(f.source.Dir)
	if err != nil || info.IsDir() {
		return nil // an error is told by what reads the directory
	}
	path := f.source.Dir
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	settings, err := zoocfg.Read(path, file)
	if err != nil {
		return err
	}
	c, err := zoocfg.Parse(settings)
	if err != nil {
		return err
	}
	if c.Server.DataDir == "" {
		return fmt.Errorf("%s: has no dataDir", path)
	}
	f.source.Dir = c.Server.DataDir
	if f.source.LogDir == "" {
		f.source.LogDir = c.Server.LogDir
	}
	f.server = c.Address
	// Times first: their defaults differ between servers. What --set says comes last and has precedence.
	carried := []string{
		"tickTime=" + strconv.FormatInt(c.Server.TickTime.Milliseconds(), 10),
		"minSessionTimeout=" + strconv.FormatInt(c.Server.MinSessionTimeout.Milliseconds(), 10),
		"maxSessionTimeout=" + strconv.FormatInt(c.Server.MaxSessionTimeout.Milliseconds(), 10),
	}
	var left []string
	for _, kv := range settings {
		switch key := strings.TrimPrefix(kv.Key, "zookeeper."); {
		case key == "enforceQuota": // yes is true here, and false to Apache ZooKeeper
			carried = append(carried, key+"="+strconv.FormatBool(c.Server.EnforceQuota))
		case key == "extendedTypesEnabled":
			carried = append(carried, key+"="+strconv.FormatBool(c.Server.ExtendedTypes))
		case slices.Contains(carriedKeys, key) || strings.HasPrefix(key, "authProvider"):
			carried = append(carried, key+"="+kv.Value)
		case !slices.Contains(replacedKeys, key) && !strings.HasPrefix(key, "server.") && !strings.HasPrefix(key, "admin.") && !strings.HasPrefix(key, "lockkeeper."):
			left = append(left, key)
		}
	}
	f.set = append(carried, f.set...)
	if len(left) > 0 {
		notice(fmt.Sprintf("ensemble grow: these settings of %s are not taken over (--set KEY=VALUE does it): %s", path, printable.Text(strings.Join(left, ", "))))
	}
	return nil
}

// carriedKeys are settings of a single server that its ensemble keeps, and replacedKeys those that an ensemble has its own of.
var (
	carriedKeys  = []string{"initLimit", "syncLimit", "maxClientCnxns", "maxCnxns", "snapCount", "preAllocSize", "globalOutstandingLimit"}
	replacedKeys = []string{"dataDir", "dataLogDir", "clientPort", "clientPortAddress", "tickTime", "minSessionTimeout", "maxSessionTimeout",
		"4lw.commands.whitelist", "autopurge.snapRetainCount", "autopurge.purgeInterval", "db.autocreate", "snapshot.trust.empty"}
)

func (f *growFlags) runner() ensemble.Runner {
	r := ensemble.DefaultRunner()
	if f.classPath != "" {
		r.ClassPath = f.classPath
	}
	return r
}

// bringUp verifies the members, after starting them if that is asked for.
func (f *growFlags) bringUp(ctx context.Context, cmd *cobra.Command, p *ensemble.Plan) error {
	to := access.Settings{}
	if p.Spec.TLS {
		to.CA, to.Cert = filepath.Join(p.Spec.Out, "tls", "ca.pem"), filepath.Join(p.Spec.Out, "tls", "client.pem")
	}
	dial, err := to.Dialer(notice)
	if err != nil {
		return exit.Errorf(exit.CannotCreate, "ensemble grow: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var reports []ensemble.Report
	if f.start {
		r := f.runner()
		if err := r.Check(); err != nil {
			return exit.Errorf(exit.CannotCreate, "ensemble grow: %w", err)
		}
		reports, err = p.Start(limited, r, dial, func(text string) { notice("ensemble grow: " + text) })
	} else {
		reports, err = p.Verify(limited, dial)
	}
	if showErr := f.show(cmd, reports); showErr != nil {
		return showErr
	}
	if err != nil && p.Open && f.start { // members may run: that is to be known also after an interrupt
		return exit.Errorf(exit.StatusOf(orInterrupted(ctx, err), exit.Failure), "ensemble grow: %s", err)
	}
	if err != nil {
		return orInterrupted(ctx, exit.Errorf(exit.Failure, "ensemble grow: %w", err))
	}
	if f.start {
		notice(fmt.Sprintf("ensemble grow: clients are let in: --servers %s\n%s", p.Spec.Connect(), p.Retire()))
		return nil
	}
	notice("ensemble grow: " + p.NextOpen(f.out))
	return nil
}

// show prints what the members have said.
func (f *growFlags) show(cmd *cobra.Command, reports []ensemble.Report) error {
	if f.asJSON {
		if reports == nil {
			reports = []ensemble.Report{}
		}
		return printJSON(cmd.OutOrStdout(), reports)
	}
	if len(reports) == 0 {
		return nil
	}
	rows := [][]string{{"MEMBER", "ADDRESS", "MODE", "ZXID", "ZNODES", "EPHEMERAL", "STATE"}}
	for _, r := range reports {
		state := "whole"
		if r.Problem != "" {
			state = printable.Text(r.Problem)
		}
		znodes, ephemerals := strconv.Itoa(r.Znodes), strconv.Itoa(r.Ephemerals)
		if r.Mode == "" { // it has not answered
			znodes, ephemerals = "", ""
		}
		rows = append(rows, []string{strconv.Itoa(r.ID), r.Address, printable.Text(r.Mode), printable.Text(r.Zxid), znodes, ephemerals, state})
	}
	return printTable(cmd.OutOrStdout(), rows)
}
