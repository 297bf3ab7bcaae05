package apache

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

// An Ensemble is some servers that form a quorum.
type Ensemble struct {
	t       testing.TB
	Servers []*Server
}

// StartEnsemble runs n servers and returns when all of them serve.
func StartEnsemble(t testing.TB, n int, o Options) *Ensemble {
	t.Helper()
	return &Ensemble{t: t, Servers: startAll(t, n, o)}
}

// Connect returns the addresses of all servers, as clients want them.
func (e *Ensemble) Connect() string {
	addrs := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		addrs[i] = s.addr
	}
	return strings.Join(addrs, ",")
}

// CutOff cuts the way between the two servers on which one follows the other; HealAll ends it.
func (e *Ensemble) CutOff(a, b *Server) {
	a.links[b.id].Cut()
	b.links[a.id].Cut()
}

// HealAll heals all links.
func (e *Ensemble) HealAll() {
	for _, s := range e.Servers {
		for _, l := range s.links {
			l.Heal()
		}
	}
}

// electionTimeout bounds how long an ensemble may be without a leader.
const electionTimeout = 60 * time.Second

// Leader waits until one of the servers leads and returns it.
func (e *Ensemble) Leader() *Server {
	e.t.Helper()
	return e.await("leader", 1)[0]
}

// Followers waits until all servers but the leader follow, and returns them.
func (e *Ensemble) Followers() []*Server {
	e.t.Helper()
	return e.await("follower", len(e.Servers)-1)
}

func (e *Ensemble) await(mode string, n int) []*Server {
	e.t.Helper()
	for deadline := time.Now().Add(electionTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		var found []*Server
		for _, s := range e.Servers {
			if m, err := s.Mode(); err == nil && m == mode {
				found = append(found, s)
			}
		}
		if len(found) == n {
			return found
		}
	}
	e.t.Fatalf("not as many as %d of mode %s after %v", n, mode, electionTimeout)
	return nil
}

// startAll runs n servers: an ensemble, if there are several. The ports are free when they are
// chosen, but only the servers themselves can bind them; if another process was faster, all are
// started again on other ports.
func startAll(t testing.TB, n int, o Options) []*Server {
	t.Helper()
	for range startAttempts {
		ports, err := proc.FreePorts(portsEach * n)
		if len(o.Places) > 0 {
			ports, err = slices.Repeat([]int{2181, 2888, 3888}, n), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		servers, err := tryStart(t, ports, o)
		if err == nil {
			for _, s := range servers {
				t.Cleanup(s.cleanup)
			}
			return servers
		}
		conflict := errors.Is(err, errPortTaken)
		for _, s := range servers {
			s.Kill()
			if !conflict {
				t.Logf("log of server %d:\n%s", s.id, s.Log())
			}
			s.close()
		}
		if !conflict {
			t.Fatalf("start ZooKeeper: %v", err)
		}
	}
	t.Fatalf("start ZooKeeper: no free ports in %d attempts", startAttempts)
	return nil
}

// tryStart starts servers once, with three ports each. Whatever the error, the servers that it
// returns exist.
func tryStart(t testing.TB, ports []int, o Options) ([]*Server, error) {
	var servers []*Server
	for i := range len(ports) / portsEach {
		s := &Server{t: t, id: i + 1, dir: t.TempDir(), opts: o}
		s.addr = fmt.Sprintf("%s:%d", s.place().Host, ports[portsEach*i])
		var err error
		if s.logOut, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
			return servers, err
		}
		servers = append(servers, s)
		members, err := s.members(ports)
		if err != nil {
			return servers, err
		}
		if err := s.configure(ports[portsEach*i], members); err != nil {
			return servers, err
		}
		if err := s.launch(); err != nil {
			return servers, err
		}
	}
	for _, s := range servers {
		if err := s.awaitServing(servers...); err != nil {
			return servers, fmt.Errorf("server %d: %w", s.id, err)
		}
	}
	return servers, nil
}

// portsEach is how many ports a server has: for clients, for its followers, for elections.
const portsEach = 3

// members returns the lines of zoo.cfg that name the servers of an ensemble. The ports where the
// others are followed are reached by way of links, unless the servers have places.
func (s *Server) members(ports []int) (string, error) {
	if len(ports) == portsEach {
		return "", nil
	}
	var b strings.Builder
	s.links = map[int]*Link{}
	for i := range len(ports) / portsEach {
		id, quorumPort := i+1, ports[portsEach*i+1]
		host := "127.0.0.1"
		if len(s.opts.Places) > 0 {
			host = s.opts.Places[i].Host
		} else if id != s.id && !s.opts.Direct {
			l, err := newLink(fmt.Sprintf("127.0.0.1:%d", quorumPort))
			if err != nil {
				return "", err
			}
			s.links[id], quorumPort = l, l.port()
		}
		fmt.Fprintf(&b, "server.%d=%s:%d:%d\n", id, host, quorumPort, ports[portsEach*i+2])
	}
	return b.String(), nil
}

// Configure changes lines of zoo.cfg of a server that is down, for its next start. A setting whose value is empty goes.
func (s *Server) Configure(settings map[string]string) {
	s.t.Helper()
	if s.process != nil {
		s.t.Fatalf("configure server %d, which is up", s.id)
	}
	path := filepath.Join(s.dir, "zoo.cfg")
	old, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(old)) {
		name, _, _ := strings.Cut(line, "=")
		if _, changed := settings[name]; !changed {
			b.WriteString(line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if value := settings[name]; value != "" {
			fmt.Fprintf(&b, "%s=%s\n", name, value)
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// configure writes zoo.cfg and myid.
func (s *Server) configure(port int, members string) error {
	config := map[string]string{
		"tickTime":               fmt.Sprint(s.opts.tick().Milliseconds()),
		"dataDir":                s.DataDir(),
		"clientPort":             fmt.Sprint(port),
		"clientPortAddress":      s.place().Host,
		"maxClientCnxns":         "0",
		"maxSessionTimeout":      fmt.Sprint(sessionTimeoutMax.Milliseconds()),
		"initLimit":              "20",
		"syncLimit":              "100", // servers do not give each other up when a test has frozen some, or the machine stalls
		"4lw.commands.whitelist": "*",
		"admin.enableServer":     "false",
		"forceSync":              "no", // no power fails here, and a slow disk would end sessions
	}
	maps.Copy(config, s.opts.Config)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&b, "%s=%s\n", k, config[k])
	}
	b.WriteString(members)
	if err := os.Mkdir(s.DataDir(), 0o755); err != nil {
		return err
	}
	if s.opts.Seed != "" {
		if err := os.CopyFS(filepath.Join(s.DataDir(), "version-2"), os.DirFS(filepath.Join(s.opts.Seed, "version-2"))); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(s.DataDir(), "myid"), fmt.Appendln(nil, s.id), 0o644),
		os.WriteFile(filepath.Join(s.dir, "zoo.cfg"), []byte(b.String()), 0o644))
}
