package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/localserver"
	"github.com/lockkeeper/lockkeeper/internal/serverlist"
)

// serversVariable names the servers if no flag does.
const serversVariable = "LOCKKEEPER_SERVERS"

// accessFlags are the flags that say how to get to the servers. What no flag says, a variable may.
type accessFlags struct {
	servers string
	given   access.Settings // by flags other than --servers
	has     []accessFlag    // those that the command has
	unnamed bool            // settings found no server list

	connectTimeout time.Duration

	log *roleLog // of commands that run for long; nil otherwise
}

// An accessFlag is a flag that says how to get to the servers, with the variable that speaks if it is not given.
type accessFlag struct {
	name, variable, usage string
	otherwise             string                         // what goes if neither speaks, in words
	isFile                bool                           // the value is the name of one
	of                    func(*access.Settings) *string // where the value belongs
}

// Which commands have which.
var (
	tlsFlags = []accessFlag{ // all that connect
		{name: "tls-ca", variable: "LOCKKEEPER_TLS_CA", isFile: true, of: func(s *access.Settings) *string { return &s.CA },
			usage: "PEM `file` with the authorities to believe about the servers; this, a certificate or a name turns TLS on", otherwise: "those of the system"},
		{name: "tls-cert", variable: "LOCKKEEPER_TLS_CERT", isFile: true, of: func(s *access.Settings) *string { return &s.Cert },
			usage: "PEM `file` with the certificate to show to the servers", otherwise: "none"},
		{name: "tls-key", variable: "LOCKKEEPER_TLS_KEY", isFile: true, of: func(s *access.Settings) *string { return &s.Key },
			usage: "PEM `file` with its private key", otherwise: "the same file"},
		{name: "tls-server-name", variable: "LOCKKEEPER_TLS_SERVER_NAME", of: func(s *access.Settings) *string { return &s.ServerName },
			usage: "`name` that the servers' certificates must be for", otherwise: "that in --servers"},
	}
	sessionFlags = append(slices.Clone(tlsFlags), // all that have a session
		accessFlag{name: "auth-file", variable: "LOCKKEEPER_AUTH_FILE", isFile: true, of: func(s *access.Settings) *string { return &s.AuthFile },
			usage: "`file` with credentials to show to the servers, a line each: digest:USER:PASSWORD", otherwise: "none"})
	makingFlags = append(slices.Clone(sessionFlags), // all that make locks
		accessFlag{name: "acl", variable: "LOCKKEEPER_ACL", of: func(s *access.Settings) *string { return &s.ACL },
			usage:     "`" + access.World + "|" + access.Creator + "` says which clients may touch the znodes that are made: all, or those with the creator's credentials or certificate",
			otherwise: access.World})
)

// addTo adds --servers and these flags to a command.
func (f *accessFlags) addTo(cmd *cobra.Command, flags []accessFlag) {
	cmd.Flags().Var((*serverList)(&f.servers), "servers",
		`ZooKeeper servers, "host:port,host:port[/chroot]" or "unix:/path"; "local" is the keeper on this machine (default $`+serversVariable+`, else local)`)
	for _, flag := range flags {
		cmd.Flags().Var((*accessValue)(flag.of(&f.given)), flag.name, fmt.Sprintf("%s (default $%s, else %s)", flag.usage, flag.variable, flag.otherwise))
	}
	cmd.Flags().DurationVar(&f.connectTimeout, "connect-timeout", connectTimeoutDefault, "how long to look for a server")
	f.has = flags
	completeValues(cmd, "servers", access.Local)
	completeValues(cmd, "acl", access.World, access.Creator)
}

// A serverList is the value of --servers. That an empty one is refused, and a variable that is set to nothing, is for
// scripts that say --servers "$SERVERS" without having set it: each machine would lock by itself, unnoticed.
type serverList string

func (l *serverList) Set(s string) error {
	if s == "" {
		return errors.New(`it names no server; "local" is the keeper on this machine`)
	}
	*l = serverList(s)
	return serverlist.Check(s)
}

func (l *serverList) String() string { return string(*l) }
func (l *serverList) Type() string   { return "string" }

// An accessValue is the value of an accessFlag. Like that of --servers it is not empty.
type accessValue string

func (v *accessValue) Set(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}
	*v = accessValue(s)
	return nil
}

func (v *accessValue) String() string { return string(*v) }
func (v *accessValue) Type() string   { return "string" }

// named returns the server list of the flag, the variable or the configuration; empty if there is none.
func (f *accessFlags) named(config clientConfig) (string, error) {
	if f.servers != "" {
		return f.servers, nil
	}
	named, set := os.LookupEnv(serversVariable)
	switch {
	case set && named == "":
		return "", exit.Errorf(exit.Usage, `%s is set, and names no server; "local" is the keeper on this machine`, serversVariable)
	case set:
		err := serverlist.Check(named)
		if err != nil {
			return "", exit.Errorf(exit.Usage, "%s=%s: %w", serversVariable, named, err)
		}
		return named, nil
	}
	if v, ok := config["servers"]; ok {
		err := serverlist.Check(v.text)
		if err != nil {
			return "", exit.Errorf(exit.Config, "%s: servers = %s: %w", v.where, v.text, err)
		}
		return v.text, nil
	}
	where, required, err := config.requiresServers()
	if err == nil && required {
		err = exit.Errorf(exit.Usage, `no servers are named, and %s wants them to be (--servers or %s; "local" is the keeper on this machine)`, where, serversVariable)
	}
	return "", err
}

// noticeLocal says, where no person looks at a terminal, that a lock, a group or the like is of this machine alone, because no
// servers are named.
func (f *accessFlags) noticeLocal(what string) {
	if f.unnamed && !term.IsTerminal(int(os.Stderr.Fd())) {
		f.log.notice("no servers are named: this " + what + " is for this machine only (name them with --servers or " + serversVariable + "; --servers local leaves this line out)")
	}
}

// settings puts together what the flags, the environment and the configuration files say.
func (f *accessFlags) settings() (s access.Settings, err error) {
	config, err := readClientConfig(os.Getenv)
	if err != nil {
		return s, err
	}
	named, err := f.named(config)
	if err != nil {
		return s, err
	}
	f.unnamed = named == ""
	s.Servers, s.ConnectTimeout = chooseServers(named), f.connectTimeout
	if f.connectTimeout < time.Millisecond {
		return s, exit.Errorf(exit.Usage, "--connect-timeout %v: not a duration of at least %v", f.connectTimeout, time.Millisecond)
	}
	said := map[string]saidValue{}
	for _, flag := range f.has {
		v := f.value(flag, config)
		said[flag.name] = v
		switch {
		case v.text == "" || s.Servers == access.Local && named != "" && !v.given: // it is for other servers
			continue
		case s.Servers == access.Local:
			return s, v.wrong("is for servers that --servers or %s names; the keeper on this machine is open to its user alone", serversVariable)
		case flag.isFile:
			if v.text, err = filepath.Abs(v.text); err != nil {
				return s, v.wrong("%w", err)
			}
		}
		*flag.of(&s) = v.text
	}
	wrong := s.Check()
	if wrong == nil {
		wrong = s.CheckFiles()
	}
	if wrong != nil {
		return s, said[wrong.Flag].wrong("%s", wrong.Text)
	}
	return s, nil
}

// A saidValue is the value of a flag, whatever has said it.
type saidValue struct {
	text   string // empty if nothing has
	given  bool   // on the command line
	where  string // with the text, for errors
	status int    // of errors
}

// wrong says what is wrong with the value.
func (v saidValue) wrong(format string, args ...any) error {
	return exit.Errorf(v.status, "%s: "+format, append([]any{v.where}, args...)...)
}

// value returns what the command line, the environment or a configuration file says, the first of these that says anything.
func (f *accessFlags) value(flag accessFlag, config clientConfig) saidValue {
	text := *flag.of(&f.given)
	if text != "" {
		return saidValue{text, true, "--" + flag.name + " " + text, exit.Usage}
	}
	text = os.Getenv(flag.variable)
	if text != "" {
		return saidValue{text, false, flag.variable + "=" + text, exit.Usage}
	}
	v := config[flag.name]
	return saidValue{v.text, false, fmt.Sprintf("%s: %s = %s", v.where, flag.name, v.text), exit.Config}
}

// chooseServers returns the server list to use for what the user has named, or access.Local. Paths of sockets in it are absolute:
// processes have different directories.
func chooseServers(named string) string {
	if named == "" {
		return access.Local
	}
	// Under another lock the variable names the keeper by its socket. It is still ours to start.
	if socket, ok := strings.CutPrefix(named, "unix:"); ok {
		if places, err := localserver.FindPlaces(os.Getenv); err == nil && places.IsSocket(socket) {
			return access.Local
		}
	}
	entries := strings.Split(named, ",")
	for i, entry := range entries {
		socket, ok := strings.CutPrefix(strings.TrimSpace(entry), "unix:")
		if !ok || filepath.IsAbs(socket) || strings.HasPrefix(socket, "@") { // what begins with @ is no path
			continue
		}
		if path, err := filepath.Abs(socket); err == nil { // else there is no present directory, and no such socket
			entries[i] = "unix:" + path
		}
	}
	return strings.Join(entries, ",")
}

// passOn returns an environment in which commands find the servers as we do; where those are, they are told otherwise.
func (f *accessFlags) passOn(env []string, s access.Settings) []string {
	env = slices.Clone(env)
	for _, flag := range f.has {
		value := *flag.of(&s)
		if value == "" {
			continue
		}
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, flag.variable+"=") })
		env = append(env, flag.variable+"="+value)
	}
	return env
}
