package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/zk"
)

// servicesPath is where services are unless --base says otherwise.
const servicesPath = "/lockkeeper/services"

// An instanceLine is an instance of a service as JSON shows it.
type instanceLine struct {
	ID         string    `json:"id"`
	Address    string    `json:"address"`
	Port       int       `json:"port,omitempty"`
	SSLPort    int       `json:"sslPort,omitempty"`
	Disabled   bool      `json:"disabled,omitempty"`
	Registered time.Time `json:"registered,omitzero"`
}

func newDiscover() *cobra.Command {
	var flags accessFlags
	var asJSON, watch bool
	var base string
	cmd := &cobra.Command{
		Use:   "discover NAME",
		Short: "Print the instances of a service",
		Long: `Print the instances of a service, in the format of Curator's x-discovery. With --watch
they are printed again each time they change; with --json as well, each list is one
line. Znodes that cannot be read as an instance are reported on standard error.

Exit status: 64 wrong usage, 66 the service has no instance, 69 no server could be
reached, 77 the servers refuse.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := checkService(args[0], base)
			if err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			err = flags.withKeeper(ctx, func(ctx context.Context, k *client.Keeper) error {
				opening, cancel := flags.opening(ctx)
				defer cancel()
				d, err := discovery.Open(opening, k, base, discovery.Options{})
				if err != nil {
					return err
				}
				defer d.Close(context.WithoutCancel(ctx))
				for _, bad := range d.Malformed() {
					notice(bad.Error())
				}
				show := func(w io.Writer) error { return printInstances(w, d.Instances(args[0]), asJSON, watch) }
				switch {
				case watch:
					endWithReader(cmd.OutOrStdout())
					return follow(ctx, cmd.OutOrStdout(), k, d, show)
				case len(d.Instances(args[0])) == 0:
					if asJSON {
						err := show(cmd.OutOrStdout())
						if err != nil {
							return err
						}
					}
					return exit.Errorf(exit.NoSuchLock, "discover %s: the service has no instance below %s", args[0], base)
				}
				return show(cmd.OutOrStdout())
			})
			return orInterrupted(ctx, err)
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, servicesPath, 1)
	addJSONFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&watch, "watch", false, "print the instances again each time they change")
	cmd.Flags().StringVar(&base, "base", servicesPath, "`path` below which the services are")
	return cmd
}

// checkService refuses names and bases that cannot be parts of a path.
func checkService(name, base string) error {
	if name == "" || strings.Contains(name, "/") {
		return exit.Errorf(exit.Usage, "service name %q: a name is not empty and has no slash", name)
	}
	err := zk.ValidatePath(base)
	if err == nil {
		err = zk.ValidatePath(strings.TrimSuffix(base, "/") + "/" + name)
	}
	if err != nil {
		return exit.Errorf(exit.Usage, "service %s below %s: %w", name, base, err)
	}
	return nil
}

func printInstances(w io.Writer, all []discovery.Instance, asJSON, line bool) error {
	lines := make([]instanceLine, len(all))
	rows := [][]string{{"ADDRESS", "PORT", "REGISTERED", "ID"}}
	for i, in := range all {
		lines[i] = instanceLine{ID: in.ID, Address: in.Address, Port: in.Port, SSLPort: in.SSLPort, Disabled: in.Disabled, Registered: in.Registered}
		if y := in.Registered.Year(); y < 0 || y > 9999 { // it is the client's word, and JSON has no form for such a time
			lines[i].Registered = time.Time{}
		}
		port := in.Port
		if port == 0 {
			port = in.SSLPort
		}
		rows = append(rows, []string{in.Address, strconv.Itoa(port), in.Registered.Format(time.DateTime), in.ID})
	}
	return printRole(w, lines, rows, asJSON, line)
}

// registerFlags are the flags of register.
type registerFlags struct {
	accessFlags
	base     string
	id       string
	address  string
	port     int
	sslPort  int
	check    string
	interval time.Duration
}

func newRegister() *cobra.Command {
	var f registerFlags
	cmd := &cobra.Command{
		Use:   "register [flags] NAME -- COMMAND [ARG…]",
		Short: "Register an instance of a service while a command runs",
		Long: `Run COMMAND, and register it as an instance of the service NAME while it runs, in the
format of Curator's x-discovery. With --check it is registered while it is healthy
only: a URL is healthy if GET answers with a status below 400, and a shell command if
it ends with status 0. The registration comes back after an expired session. COMMAND
goes on while no server can be reached.

INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to COMMAND; INT and QUIT are not in
the foreground of a terminal, whose keys signal COMMAND, too. If lockkeeper is killed,
COMMAND goes on, and the registration is gone when the session has expired.

Exit status: COMMAND's own, 128+n if signal n ended it, and
   64  wrong usage
   69  no server could be reached
   71  the operating system refused something
   77  the servers refuse
  126  COMMAND cannot be executed, 127 it cannot be found`,
		Args: jobArgs("service", 1),
		RunE: func(_ *cobra.Command, args []string) error {
			err := f.verify(args[0])
			if err != nil {
				return err
			}
			return f.withRoleChild("registration", args[1:], func(child *roleChild, k *client.Keeper, to access.Settings) error {
				stop := f.keepRegistered(k, to, args[0])
				defer stop()
				return child.run()
			})
		},
	}
	f.addTo(cmd, makingFlags)
	f.addLogTo(cmd)
	f.completeNames(cmd, servicesPath, 1)
	flags := cmd.Flags()
	flags.StringVar(&f.base, "base", servicesPath, "`path` below which the services are")
	flags.StringVar(&f.id, "id", "", "name of the instance (default a random UUID)")
	flags.StringVar(&f.address, "address", "", "host name or IP address of the instance (default this machine's name)")
	flags.IntVar(&f.port, "port", 0, "port of the instance")
	flags.IntVar(&f.sslPort, "ssl-port", 0, "port of the instance for TLS")
	flags.StringVar(&f.check, "check", "", "`URL|CMD` that says whether the instance is healthy (default it is)")
	flags.DurationVar(&f.interval, "check-interval", 5*time.Second, "time from one check to the next; a check may take as long")
	return cmd
}

// verify refuses flags that cannot work, and fills in the address.
func (f *registerFlags) verify(name string) error {
	for flag, port := range map[string]int{"port": f.port, "ssl-port": f.sslPort} {
		if port < 0 || port > 65535 {
			return exit.Errorf(exit.Usage, "register: --%s %d: a port is a number from 1 to 65535", flag, port)
		}
	}
	switch {
	case f.port == 0 && f.sslPort == 0:
		return exit.Errorf(exit.Usage, "register: no port (give --port or --ssl-port)")
	case f.interval < 100*time.Millisecond:
		return exit.Errorf(exit.Usage, "register: --check-interval %v: not a duration of at least 100ms", f.interval)
	}
	err := checkService(name, f.base)
	if err != nil {
		return err
	}
	if f.id != "" { // otherwise one is made
		err = checkID("register", zk.Join(strings.TrimSuffix(f.base, "/"), name), f.id)
		if err != nil {
			return err
		}
	}
	if f.address == "" {
		host, err := os.Hostname()
		if err != nil {
			return exit.Errorf(exit.OS, "register: the machine has no name (give --address): %w", err)
		}
		f.address = host
	}
	return nil
}

// keepRegistered registers the instance while it is healthy, until stop is called, which waits for the end.
func (f *registerFlags) keepRegistered(k *client.Keeper, to access.Settings, name string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		in := discovery.Instance{Name: name, ID: f.id, Address: f.address, Port: f.port, SSLPort: f.sslPort}
		err := discovery.RegisterWhile(ctx, k, f.base, in, f.healthy(name), f.interval, discovery.RegisterOptions{ACL: to.MadeACL()})
		if err != nil {
			f.log.notice(fmt.Sprintf("register %s: %v (the command goes on)", name, explained(err, to)))
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// healthy returns the check that --check asks for. A change of its answer is told.
func (f *registerFlags) healthy(name string) func(context.Context) error {
	if f.check == "" {
		return func(context.Context) error { return nil }
	}
	check := f.checkCommand
	if strings.HasPrefix(f.check, "http://") || strings.HasPrefix(f.check, "https://") {
		check = f.checkURL
	}
	failed := false
	return func(ctx context.Context) error {
		err := check(ctx)
		switch {
		case err != nil && !failed && context.Cause(ctx) != context.Canceled:
			f.log.notice(fmt.Sprintf("register %s: not registered, because the check fails: %v", name, err))
		case err == nil && failed:
			f.log.notice("register " + name + ": the check succeeds again")
		}
		failed = err != nil
		return err
	}
}

func (f *registerFlags) checkURL(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.check, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answers %s", f.check, resp.Status)
	}
	return nil
}

func (f *registerFlags) checkCommand(ctx context.Context) error {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", f.check)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	err := c.Run()
	if err != nil {
		return fmt.Errorf("%s: %w", f.check, err)
	}
	return nil
}
