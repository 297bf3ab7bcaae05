package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor/gather"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
)

// The exit statuses of doctor, as monitoring programs have them.
const (
	doctorWarned   = 1
	doctorCritical = 2
)

// adminPortDefault is where Apache ZooKeeper has its admin port.
const adminPortDefault = "8080"

// A checkup is what doctor was asked to look at.
type checkup struct {
	flags      accessFlags
	config     string
	adminPorts string
	deep       bool
	asJSON     bool
}

func newDoctor() *cobra.Command {
	var c checkup
	cmd := &cobra.Command{
		Use:   "doctor [HOST:PORT…]",
		Short: "Look for what is wrong with an ensemble, and say how to mend it",
		Long: `Look for what is wrong with an ensemble, and say how to mend it. Each finding has a
severity, its evidence and the remedy. It asks each server with the four-letter words srvr,
mntr and conf, asks its admin port for what the words do not tell, and opens one session.
It changes nothing.

--deep walks the tree, for large and wide znodes: at most ` + strconv.Itoa(deepDefault.znodes) + ` znodes and ` + deepDefault.time.String() + `.

--config, on the machine of a member, looks at the configuration file, the directories, the
options of the JVM (those of the running server if it is found, else those in
zookeeper-env.sh, java.env and environment beside the file and in /etc/default/zookeeper)
and the memory. Without servers on the command line it looks at nothing else.

` + checksHelp() + `
Exit status: 0 nothing worse than a note, 1 warnings, 2 something critical, 64 wrong usage,
69 no servers are named and no keeper runs, 78 the configuration file cannot be read.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	c.flags.addTo(cmd, sessionFlags)
	addJSONFlag(cmd, &c.asJSON)
	cmd.Flags().StringVar(&c.config, "config", "", "look at the machine of the member that has this zoo.cfg `file`")
	cmd.Flags().StringVar(&c.adminPorts, "admin-port", adminPortDefault, "admin `port` of the servers, or one for each with commas; 0 asks none")
	cmd.Flags().BoolVar(&c.deep, "deep", false, "walk the tree, for large and wide znodes")
	return cmd
}

// checksHelp lists the checks.
func checksHelp() string {
	var b strings.Builder
	for _, group := range doctor.Checks {
		b.WriteString(group.Title + ":\n")
		for _, c := range group.Checks {
			fmt.Fprintf(&b, "  %-12s %s\n", c.Name, c.What)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (c *checkup) run(cmd *cobra.Command, args []string) error {
	list := strings.Join(args, ",")
	switch {
	case len(args) > 0 && cmd.Flags().Changed("servers"):
		return exit.Errorf(exit.Usage, "doctor: --servers %s and %s both say which servers: leave out one", c.flags.servers, list)
	case len(args) > 0:
		if err := (*serverList)(&c.flags.servers).Set(list); err != nil {
			return exit.Errorf(exit.Usage, "doctor %q: %w", list, err)
		}
	}
	var machine *doctor.Machine
	if c.config != "" {
		var err error
		if machine, err = (gather.Disk{}).Machine(c.config); err != nil {
			return exit.Errorf(exit.Config, "doctor: --config: %w", err)
		}
	}
	var e doctor.Ensemble
	switch {
	case c.config == "" || c.flags.servers != "":
		ctx, stop := interruptible()
		defer stop()
		var err error
		if e, err = c.ensemble(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return orInterrupted(ctx, context.Cause(ctx))
		}
	case c.deep:
		return exit.Errorf(exit.Usage, "doctor: --deep walks the tree of servers: with --config, name them as well")
	}
	return prescribe(cmd, doctor.Examine(e, machine), c.asJSON)
}

// ensemble asks the servers.
func (c *checkup) ensemble(ctx context.Context) (e doctor.Ensemble, err error) {
	to, err := c.flags.settings()
	if err != nil {
		return e, err
	}
	list, err := c.flags.statusList(to.Servers)
	if err != nil {
		return e, err
	}
	if !strings.HasPrefix(list, "unix:") {
		list, _, _ = strings.Cut(list, "/") // an ensemble is looked at as a whole
		to.Servers = list
	}
	dial, err := to.Dialer(notice)
	if err != nil {
		return e, exit.Errorf(exit.Usage, "doctor: %w", err)
	}
	names := strings.Split(list, ",")
	ports, err := adminPorts(c.adminPorts, len(names))
	if err != nil {
		return e, err
	}
	network := gather.Network{Dial: gather.Dialer(dial), DialAdmin: (&net.Dialer{}).DialContext, AdminPorts: ports, Resolve: net.DefaultResolver.LookupHost, Timeout: to.ConnectTimeout}
	e.Servers = network.Servers(ctx, names)
	e.TLS = to.TLS() || strings.HasPrefix(list, "unix:")
	c.readTree(ctx, to, &e)
	members := e.Members
	for _, s := range e.Servers {
		if members == nil {
			members = doctor.MembersOf(s.Config)
		}
	}
	e.Addresses = network.Addresses(ctx, e.Servers, members)
	return e, nil
}

// adminPorts reads --admin-port.
func adminPorts(text string, servers int) ([]string, error) {
	if text == "0" {
		return nil, nil
	}
	ports := strings.Split(text, ",")
	if len(ports) != 1 && len(ports) != servers {
		return nil, exit.Errorf(exit.Usage, "doctor: --admin-port %s has %d ports, and there are %d servers: name one for all, or one for each", text, len(ports), servers)
	}
	for _, p := range ports {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, exit.Errorf(exit.Usage, "doctor: --admin-port %s: %q is no port", text, p)
		}
	}
	return ports, nil
}

// readTree adds what stands in the tree. What cannot be read is not known.
func (c *checkup) readTree(ctx context.Context, to access.Settings, e *doctor.Ensemble) {
	answers := false
	for _, s := range e.Servers {
		answers = answers || s.Status != nil
	}
	if !answers {
		return
	}
	e.SessionErr = withSession(ctx, to, func(ctx context.Context, s *client.Session) error {
		if acl, _, err := s.ACL(ctx, "/"); err == nil {
			e.RootACL = acl
		}
		if acl, _, err := s.ACL(ctx, configPath); err == nil {
			e.ConfigACL = acl
		}
		if text, _, err := s.Get(ctx, configPath); err == nil {
			e.Members = doctor.MembersOf(gather.Pairs(string(text), "="))
		}
		if c.deep {
			e.Tree = surveyTree(ctx, s, deepDefault)
		}
		return nil
	})
}

// configPath is where an ensemble has its members.
const configPath = "/zookeeper/config"

// prescribe shows the findings.
func prescribe(cmd *cobra.Command, findings []doctor.Finding, asJSON bool) error {
	if asJSON {
		if findings == nil {
			findings = []doctor.Finding{}
		}
		if err := printJSON(cmd.OutOrStdout(), findings); err != nil {
			return err
		}
	}
	numbers := map[doctor.Severity]int{}
	for _, f := range findings {
		numbers[f.Severity]++
		if asJSON {
			continue
		}
		where := ""
		if f.Server != "" {
			where = f.Server + ": "
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-8s  %s%s\n          → %s\n", f.Severity, printable.Text(where), printable.Text(f.Evidence), printable.Text(f.Mend)); err != nil {
			return err
		}
	}
	critical, warnings := numbers[doctor.Critical], numbers[doctor.Warning]
	warned := counted(warnings, "warning")
	switch {
	case critical > 0 && warnings > 0:
		return exit.Errorf(doctorCritical, "doctor: %d critical, %s", critical, warned)
	case critical > 0:
		return exit.Errorf(doctorCritical, "doctor: %d critical", critical)
	case warnings > 0:
		return &exit.Error{Status: doctorWarned, Err: errors.New("doctor: " + warned)}
	}
	if !asJSON {
		notice("doctor: nothing worse than a note was found")
	}
	return nil
}
