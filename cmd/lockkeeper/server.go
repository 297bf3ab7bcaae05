package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/localserver"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

const (
	// listenDefault is where a server without a configuration listens: for this machine only, since it
	// lets in all clients that reach it.
	listenDefault = "127.0.0.1:2181"
	// idleDefault is how long a local keeper stays when no client is connected; idleVariable changes that
	// for those that are started in the background.
	idleDefault  = 10 * time.Minute
	idleVariable = "LOCKKEEPER_KEEPER_IDLE"
)

// serverFlags are the flags of server.
type serverFlags struct {
	log                  logFormat
	config, data, listen string
	set                  []string
	local                bool
	idle                 time.Duration
	reportReady          bool
}

// wrongConfig is the exit status if settings are wrong that may be those of a file.
func (f *serverFlags) wrongConfig() int {
	if f.config == "" {
		return exit.Usage
	}
	return exit.Config
}

// check refuses what does not go together, and an empty --data. given reports whether a flag has been given.
func (f *serverFlags) check(given func(flag string) bool) error {
	if given("data") && f.data == "" {
		return exit.Errorf(exit.Usage, "server: --data: is empty")
	}
	if !f.local {
		if given("idle") {
			return exit.Errorf(exit.Usage, "server: --idle needs --local: another server goes on until it is told to end")
		}
		return nil
	}
	if f.idle < 0 {
		return exit.Errorf(exit.Usage, "server: --idle %v: is negative; 0 is for ever", f.idle)
	}
	for _, flag := range []string{"config", "data", "set", "listen"} {
		if given(flag) {
			return exit.Errorf(exit.Usage, "server: --local and --%s: it is one or the other", flag)
		}
	}
	return nil
}

func newServer() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a ZooKeeper server in the foreground",
		Long: `Run a server that speaks ZooKeeper's protocol and keeps ZooKeeper's files. It
stands alone: for more than one machine run Apache ZooKeeper, which takes the
data directory over as it is.

--config reads ZooKeeper's own zoo.cfg. --set adds or changes any of its settings,
as in --set tickTime=1000 --set secureClientPort=2281; --data and --listen have
precedence over both. --listen takes host:port, or unix:/path for a socket. Settings
without effect here are named in a warning at the start; a setting that does not exist
is refused if it comes from --set.

Like ZooKeeper, a server with --config has an HTTP port with commands at /commands;
it has /metrics (Prometheus) and /healthz, too. Unlike ZooKeeper's it listens at
127.0.0.1:8080 unless admin.serverAddress says otherwise, and a server without
--config has it only with --set admin.enableServer=true.

Where other machines can reach a server that was started with --data, it is secure:
it insists on TLS (--set secureClientPort=2281 --set ssl.keyStore.location=SERVER.pem
--set ssl.trustStore.location=CA.pem; with ssl.clientAuth=none no trustStore is needed),
and only super may change the root and what is below /zookeeper. A server with
--config does as ZooKeeper does, and warns. lockkeeper.secure=true or false says
which, for both.

--local runs the keeper that other commands start by themselves when no servers
are configured.

It tells systemd when it is ready and when it ends (Type=notify).

It ends with INT, TERM, QUIT or, without --local, HUP (which does not read the
configuration again), after answering what it has received; while it still reads its
data, at once.

Exit status: 64 wrong usage, 71 it cannot listen (--local: also all that is 73 or 1),
73 it cannot use the data directory, 78 the configuration file is wrong, 1 it failed
while it ran.`,
		Args:                       wantCommand,
		SuggestionsMinimumDistance: suggestionsMax,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := errors.Join(f.check(cmd.Flags().Changed), f.log.check())
			if err != nil {
				return err
			}
			if f.local {
				return serveLocal(f)
			}
			return serve(f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "ZooKeeper configuration file (zoo.cfg)")
	flags.StringArrayVar(&f.set, "set", nil, "a setting KEY=VALUE of zoo.cfg; may be repeated")
	flags.StringVar(&f.data, "data", "", "data directory")
	flags.StringVar(&f.listen, "listen", "", "where to listen (default "+listenDefault+", or as configured)")
	flags.BoolVar(&f.local, "local", false, "be the local keeper of this user")
	flags.DurationVar(&f.idle, "idle", idleDefault, "with --local: end when no client has been connected for that long; 0 never")
	flags.BoolVar(&f.reportReady, "report-ready", false, "")
	flags.MarkHidden("report-ready")
	f.log.addTo(cmd)
	cmd.AddCommand(newServerCheck())
	return cmd
}

// serveLocal is the local keeper, in the foreground.
func serveLocal(f serverFlags) error {
	ctx, stop := interruptible()
	defer stop()
	var ready io.WriteCloser = discard{} // in the foreground the log is enough
	if f.reportReady {
		if err := proc.CloseInherited(localserver.FDReady); err != nil {
			return exit.Errorf(exit.OS, "local keeper: %w", err)
		}
		syscall.CloseOnExec(localserver.FDReady)
		ready = os.NewFile(localserver.FDReady, "ready")
	}
	signal.Ignore(syscall.SIGHUP)
	places, err := localserver.FindPlaces(os.Getenv)
	if err != nil {
		return exit.Errorf(exit.OS, "%w", err)
	}
	if err := localserver.Serve(ctx, places, f.idle, ready, f.log.logger()); err != nil {
		return exit.Errorf(exit.OS, "local keeper: %w", err)
	}
	return nil
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

// A logFormat says how the server writes its log.
type logFormat struct {
	format string
	level  slog.Level
}

// addTo adds the flags of the log to a command.
func (f *logFormat) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "how the log is written: text or json")
	cmd.Flags().Var((*logLevel)(&f.level), "log-level", "the least `level` that is logged: debug, info, warn or error")
	completeValues(cmd, "log-format", "text", "json")
	completeValues(cmd, "log-level", logLevels...)
}

var logLevels = []string{"debug", "info", "warn", "error"}

// A logLevel is the value of --log-level.
type logLevel slog.Level

// String implements pflag.Value.
func (l *logLevel) String() string { return strings.ToLower(slog.Level(*l).String()) }

// Set implements pflag.Value.
func (l *logLevel) Set(text string) error {
	if !slices.Contains(logLevels, strings.ToLower(text)) {
		return errors.New("not one of debug, info, warn and error")
	}
	return (*slog.Level)(l).UnmarshalText([]byte(text))
}

// Type implements pflag.Value.
func (l *logLevel) Type() string { return "level" }

func (f *logFormat) check() error {
	if f.format != "text" && f.format != "json" {
		return exit.Errorf(exit.Usage, "--log-format %s: not one of text and json", f.format)
	}
	return nil
}

func (f *logFormat) logger() *slog.Logger {
	opt := &slog.HandlerOptions{Level: f.level}
	if f.format == "json" {
		return slog.New(slog.NewJSONHandler(printable.JSON(os.Stderr), opt))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opt))
}
