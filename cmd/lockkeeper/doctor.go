package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
)

// The exit statuses of doctor, as monitoring programs have them.
const (
	doctorWarned   = 1
	doctorCritical = 2
)

func newDoctor() *cobra.Command {
	var flags accessFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [HOST:PORT…]",
		Short: "Look for what is wrong with an ensemble, and say how to mend it",
		Long: `Look for what is wrong with an ensemble, and say how to mend it: servers that are silent,
stand alone beside others, are not in sync, have fewer znodes or older data, other members,
other versions or other session timeouts than the rest; too few or an even number of
members; slow disks, requests that wait, file descriptors that run out; a root that all may
change. It asks each server with srvr, mntr and conf, and opens one session. It changes
nothing.

Exit status: 0 nothing worse than a note, 1 warnings, 2 something critical, 64 wrong usage.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			list := strings.Join(args, ",")
			switch {
			case len(args) > 0 && cmd.Flags().Changed("servers"):
				return exit.Errorf(exit.Usage, "doctor: --servers %s and %s both say which servers: leave out one", flags.servers, list)
			case len(args) > 0:
				if err := (*serverList)(&flags.servers).Set(list); err != nil {
					return exit.Errorf(exit.Usage, "doctor %q: %w", list, err)
				}
			}
			to, err := flags.settings()
			if err != nil {
				return err
			}
			if list, err = statusList(to.Servers); err != nil {
				return err
			}
			if err := withoutScheme(list); err != nil {
				return exit.Errorf(exit.Usage, "doctor %s: %w", list, err)
			}
			dial, err := to.Dialer(notice)
			if err != nil {
				return exit.Errorf(exit.Usage, "doctor: %w", err)
			}
			ctx, stop := interruptible()
			defer stop()
			e := doctor.Ensemble{Servers: consult(ctx, strings.Split(list, ","), dial), TLS: to.CA != "" || to.Cert != "" || to.ServerName != "" || strings.HasPrefix(list, "unix:")}
			readTree(ctx, to, &e)
			if ctx.Err() != nil {
				return orInterrupted(ctx, context.Cause(ctx))
			}
			return prescribe(cmd, doctor.Examine(e), asJSON)
		},
	}
	flags.addTo(cmd, sessionFlags)
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// consult asks all servers at the same time.
func consult(ctx context.Context, servers []string, dial access.Dialer) []doctor.Server {
	all := make([]doctor.Server, len(servers))
	room := make(chan struct{}, statusParallelMax)
	var wg sync.WaitGroup
	for i, name := range servers {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			all[i] = consultOne(ctx, strings.TrimSpace(name), dial)
		})
	}
	wg.Wait()
	return all
}

func consultOne(ctx context.Context, name string, dial access.Dialer) doctor.Server {
	s := doctor.Server{Name: name}
	row := ask(name, dial)
	if row.Status == nil {
		s.Err = errors.New(row.Error)
		return s
	}
	s.Status = row.Status
	network, address := "tcp", name
	if path, ok := strings.CutPrefix(name, "unix:"); ok {
		network, address = "unix", path
	} else {
		address, _, _ = strings.Cut(address, "/") // a chroot
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), defaultPort)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, fmt.Errorf("no answer within %v", statusTimeout))
	defer cancel()
	if text, err := fourletter.Word(ctx, dial, network, address, "mntr"); err == nil {
		s.Monitor = pairs(text, "\t")
	}
	if text, err := fourletter.Word(ctx, dial, network, address, "conf"); err == nil {
		s.Config = pairs(text, "=")
	}
	return s
}

// pairs reads lines of a name and a value.
func pairs(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			all[name] = value
		}
	}
	return all
}

// readTree adds what stands in the tree. What cannot be read is not known.
func readTree(ctx context.Context, to access.Settings, e *doctor.Ensemble) {
	answers := false
	for _, s := range e.Servers {
		answers = answers || s.Status != nil
	}
	if !answers {
		return
	}
	withSession(ctx, to, func(ctx context.Context, s *client.Session) error {
		if acl, _, err := s.ACL(ctx, "/"); err == nil {
			e.RootACL = acl
		}
		if text, _, err := s.Get(ctx, "/zookeeper/config"); err == nil {
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSpace(line)
				if strings.HasPrefix(line, "server.") {
					e.Members = append(e.Members, line)
				}
			}
		}
		return nil
	})
}

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
	worst, count := doctor.Note, 0
	for _, f := range findings {
		if f.Severity != doctor.Note {
			count++
		}
		if worst == doctor.Note || f.Severity == doctor.Critical {
			worst = f.Severity
		}
		if asJSON {
			continue
		}
		where := ""
		if f.Server != "" {
			where = f.Server + ": "
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-8s  %s%s\n          → %s\n", f.Severity, printable(where), printable(f.Evidence), f.Mend); err != nil {
			return err
		}
	}
	switch worst {
	case doctor.Critical:
		return exit.Errorf(doctorCritical, "doctor: %d findings, some of them critical", count)
	case doctor.Warning:
		return exit.Errorf(doctorWarned, "doctor: %d %s", count, plural(count, "warning", "warnings"))
	}
	if !asJSON {
		notice("doctor: nothing worse than a note was found")
	}
	return nil
}
