package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor/gather"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/localserver"
)

const (
	// statusParallelMax is how many are asked at a time.
	statusParallelMax = 16
	defaultPort       = "2181"
)

func newStatus() *cobra.Command {
	var flags accessFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [HOST:PORT…]",
		Short: "Show how servers are doing",
		Long: `Ask each server how it is, with the four-letter word srvr: its mode (leader,
follower, observer, standalone), how long it takes to answer, and its last zxid.

Exit status: 0 if all have answered and serve, 69 if none does, 1 if some do not.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			list := strings.Join(args, ",") // an argument may be a list, too
			switch {
			case len(args) > 0 && cmd.Flags().Changed("servers"):
				return exit.Errorf(exit.Usage, "status: --servers %s and %s both say which servers: leave out one", flags.servers, list)
			case len(args) > 0:
				if err := (*serverList)(&flags.servers).Set(list); err != nil {
					return exit.Errorf(exit.Usage, "status %q: %w", list, err)
				}
			}
			to, err := flags.settings()
			if err != nil {
				return err
			}
			if list, err = flags.statusList(to.Servers); err != nil {
				return err
			}
			dial, err := to.Dialer(notice)
			if err != nil {
				return exit.Errorf(exit.Usage, "status: %w", err)
			}
			rows := askAll(strings.Split(list, ","), dial, flags.connectTimeout)
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), rows); err != nil {
					return err
				}
			} else if err := printTable(cmd.OutOrStdout(), statusTable(rows)); err != nil {
				return err
			}
			return statusError(rows)
		},
	}
	flags.addTo(cmd, tlsFlags)
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// statusList returns a server list in which the local keeper has an address. It does not start it.
func (f *accessFlags) statusList(servers string) (string, error) {
	if servers != access.Local {
		return servers, nil
	}
	places, err := localserver.FindPlaces(os.Getenv)
	if err != nil {
		return "", exit.Errorf(exit.OS, "%w", err)
	}
	c, a, err := places.Find()
	if err != nil {
		unnamed := ""
		if f.unnamed {
			unnamed = "no servers are named, and "
		}
		return "", exit.Errorf(exit.Unreachable, "%sno local keeper is running in %s; the first command that needs it, such as lockkeeper locks, starts it", unnamed, places.State)
	}
	c.Close()
	return "unix:" + a.Socket, nil
}

// A serverStatus is what came of asking a server.
type serverStatus struct {
	Server string `json:"server"`
	*fourletter.Status
	Error string `json:"error,omitempty"`

	idle bool // it runs, and serves no requests
}

func askAll(servers []string, dial access.Dialer, timeout time.Duration) []serverStatus {
	rows := make([]serverStatus, len(servers))
	room := make(chan struct{}, statusParallelMax)
	var wg sync.WaitGroup
	for i, server := range servers {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			rows[i] = ask(strings.TrimSpace(server), dial, timeout)
		})
	}
	wg.Wait()
	return rows
}

func ask(server string, dial access.Dialer, timeout time.Duration) serverStatus {
	network, address := gather.Place(server)
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	s, err := fourletter.Ask(ctx, dial, network, address)
	if err != nil {
		return serverStatus{Server: server, Error: withoutAddress(err, address), idle: errors.Is(err, fourletter.ErrNotServing)}
	}
	return serverStatus{Server: server, Status: &s}
}

// withoutAddress returns the text of an error beside which the address stands already.
func withoutAddress(err error, address string) string {
	var failed *net.OpError
	if errors.As(err, &failed) && failed.Op == "dial" {
		err = failed.Err
	}
	return strings.TrimPrefix(err.Error(), address+": ")
}

func statusTable(rows []serverStatus) [][]string {
	table := [][]string{{"SERVER", "MODE", "LATENCY MIN/AVG/MAX", "ZXID", "CONNECTIONS", "ZNODES", "VERSION"}}
	for _, r := range rows {
		if r.Status == nil {
			mode := "no answer"
			if r.idle {
				mode = "not serving"
			}
			table = append(table, []string{r.Server, mode, r.Error})
			continue
		}
		ms := func(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }
		table = append(table, []string{
			r.Server, r.Mode, ms(r.LatencyMin) + "/" + ms(r.LatencyAvg) + "/" + ms(r.LatencyMax) + " ms", r.Zxid,
			strconv.Itoa(r.Connections), strconv.Itoa(r.Znodes), r.Version,
		})
	}
	return table
}

// statusError counts the servers that have not said how they are.
func statusError(rows []serverStatus) error {
	missing := 0
	none, some := "no server has answered", "have not answered"
	for _, r := range rows {
		if r.Status == nil {
			missing++
		}
		if r.idle {
			none, some = "no server serves", "do not serve"
		}
	}
	switch missing {
	case 0:
		return nil
	case len(rows):
		return &exit.Error{Status: exit.Unreachable, Err: errors.New(none)}
	}
	return exit.Errorf(exit.Failure, "%d of %d servers %s", missing, len(rows), some)
}
