package care

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/ours"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience bounds a command.
const patience = 2 * time.Minute

// A rig is an ensemble whose members a command can restart: it writes a port into one pipe and reads the exit status from another.
type rig struct {
	t        testing.TB
	command  string // lockkeeper
	ensemble *apache.Ensemble
	restart  string // the command's --restart
	ports    chan string
	replies  *os.File
	broken   map[string]bool // members that are stopped and not started
	asked    []string        // ports, in the order of the restarts

	refusing  *apache.Server // a member that answers no word but srvr
	adminPort string         // of that member
}

func newRig(t testing.TB) *rig {
	dir := t.TempDir()
	r := &rig{t: t, command: filepath.Join(dir, "lockkeeper"), ports: make(chan string), broken: map[string]bool{}}
	must(t, proc.BuildCommand(r.command))
	r.ensemble = apache.StartEnsemble(t, 3, apache.Options{Direct: true})
	requests, replies := filepath.Join(dir, "requests"), filepath.Join(dir, "replies")
	r.restart = fmt.Sprintf("echo {port} > %s && read status < %s && exit $status", requests, replies)
	for _, path := range []string{requests, replies} {
		must(t, syscall.Mkfifo(path, 0o600))
	}
	in, err := os.OpenFile(requests, os.O_RDWR, 0) // also for writing: the pipe never ends
	must(t, err)
	r.replies, err = os.OpenFile(replies, os.O_RDWR, 0)
	must(t, err)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			select {
			case r.ports <- lines.Text():
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		in.Close()
		r.replies.Close()
		<-ended
	})
	return r
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }

// run runs the command to its end, which must be with that status and those words on either output, and restarts
// members meanwhile.
func (r *rig) run(status int, words []string, args ...string) (stdout string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.command, args...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	must(r.t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case p := <-r.ports:
			r.asked = append(r.asked, p)
			i := slices.IndexFunc(r.ensemble.Servers, func(s *apache.Server) bool { return port(s.Addr()) == p })
			r.ensemble.Servers[i].Kill()
			if !r.broken[p] {
				r.ensemble.Servers[i].Launch()
			}
			fmt.Fprintln(r.replies, 0)
			continue
		case <-ended:
		}
		if got := cmd.ProcessState.ExitCode(); got != status {
			r.t.Fatalf("%q: exit status %d, want %d\n%s%s", args, got, status, &out, &said)
		}
		for _, w := range words {
			if !strings.Contains(out.String()+said.String(), w) {
				r.t.Errorf("%q says %q, want it to mention %q", args, out.String()+said.String(), w)
			}
		}
		return out.String()
	}
}

func open(t testing.TB, servers string) *client.Session {
	t.Helper()
	s, err := client.Open(t.Context(), servers, client.Options{SessionTimeout: 20 * time.Second})
	must(t, err)
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
	return s
}

// An ensemble of Apache ZooKeeper is rolled, with and without a member that stays away. Its data is backed up while a
// client writes, and restored for Apache ZooKeeper and for our server.
func TestRollBackupAndRestoreOfAnEnsemble(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := open(t, r.ensemble.Connect())
	create := func(path string, mode zk.Mode) {
		t.Helper()
		_, err := s.Create(t.Context(), path, []byte("data of "+path), mode, zk.OpenACL())
		must(t, err)
	}
	create("/app", zk.Persistent)
	create("/alive", zk.Ephemeral)
	for i := range 100 {
		create(fmt.Sprintf("/app/n%05d", i), zk.Persistent)
	}
	r.roll(s)
	s = open(t, r.ensemble.Connect())
	r.doctor(s)

	from := r.ensemble.Followers()[0]
	ctx, cancel := context.WithCancel(t.Context())
	asked, ended := atomic.Int64{}, make(chan struct{})
	asked.Store(100)
	go func() {
		defer close(ended)
		for i := asked.Load(); ctx.Err() == nil; i++ {
			asked.Store(i + 1)
			path := fmt.Sprintf("/app/n%05d", i)
			if _, err := s.Create(ctx, path, []byte("data of "+path), zk.Persistent, zk.OpenACL()); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	for asked.Load() < 150 && t.Context().Err() == nil { // the load has begun
		time.Sleep(time.Millisecond)
	}
	var made struct {
		Path             string
		Znodes, Sessions int
	}
	must(t, json.Unmarshal([]byte(r.run(0, nil, "backup", from.DataDir(), "--to", t.TempDir(), "--json")), &made))
	most := int(asked.Load())
	cancel()
	<-ended
	for _, server := range r.ensemble.Servers {
		server.Kill()
	}

	restored := filepath.Join(t.TempDir(), "data")
	r.run(0, []string{"stop all members"}, "restore", made.Path, restored)
	theirs := apache.Start(t, apache.Options{Seed: restored})
	// It counts the root twice.
	if said, err := theirs.FourLetter("srvr"); err != nil || !strings.Contains(said, fmt.Sprintf("Node count: %d\n", made.Znodes+1)) {
		t.Errorf("Apache ZooKeeper finds, and the manifest says %d: %v\n%s", made.Znodes, err, said)
	}
	both := map[string]string{"Apache ZooKeeper": theirs.Addr(), "our server": ours.Start(t, server.Options{DataDir: restored}).Addr()}
	for name, address := range both {
		s := open(t, address)
		names, _, err := s.Children(t.Context(), "/app")
		must(t, err)
		slices.Sort(names)
		for i, n := range names {
			if want := fmt.Sprintf("n%05d", i); n != want {
				t.Fatalf("%s: the %dth znode is %s, want %s", name, i, n, want)
			}
			data, _, err := s.Get(t.Context(), "/app/"+n)
			if err != nil || string(data) != "data of /app/"+n {
				t.Fatalf("%s: %s: %q, %v", name, n, data, err)
			}
		}
		if len(names) < 100 || len(names) > most || len(names)+6 != made.Znodes { // with the ephemeral of a session that is in the backup
			t.Errorf("%s has %d znodes below /app; 100 to %d were possible, and the manifest has %d in all", name, len(names), most, made.Znodes)
		}
	}
}

// roll rolls the ensemble, and tries to while a member stays away. s lives through the first.
func (r *rig) roll(s *client.Session) {
	t := r.t
	t.Helper()
	leader := r.ensemble.Leader().Addr()
	command := []string{"ensemble", "roll", "--servers", r.ensemble.Connect(), "--restart", r.restart}
	plan := strings.Split(strings.TrimSpace(r.run(0, nil, append(command, "--plan")...)), "\n")
	if len(plan) != 3 || !strings.HasPrefix(plan[2], "3. "+leader+" (leader): echo "+port(leader)) || len(r.asked) > 0 {
		t.Fatalf("the plan is %q, after %d restarts; the leader is %s", plan, len(r.asked), leader)
	}
	// A signal in a step ends the restart command, too. What becomes of that member is not known, and roll says so.
	r.run(143, []string{"unknown: " + strings.Fields(plan[0])[1] + "; not restarted: ", "when all is well again, go on with: "},
		"ensemble", "roll", "--servers", r.ensemble.Connect(), "--restart", "kill -TERM $PPID; sleep 60; : {port}")
	// A server of ours does not begin where one of Apache ZooKeeper is at work, at another port.
	r.run(73, []string{"Apache ZooKeeper is at work there, as process"}, "server", "--data", r.ensemble.Servers[0].DataDir(), "--listen", "127.0.0.1:0")
	if out := r.run(0, []string{"all is well"}, command...); strings.Count(out, "in sync") != 3 {
		t.Errorf("roll prints\n%s", out)
	}
	for i, line := range plan {
		if len(r.asked) != 3 || !strings.Contains(line, "echo "+r.asked[i]+" ") {
			t.Fatalf("restarted were %q, and the plan was %q", r.asked, plan)
		}
	}
	if _, there, err := s.Exists(t.Context(), "/alive"); err != nil || !there {
		t.Errorf("the ephemeral of a session that lived through it: %v, %v", there, err)
	}

	first := r.ensemble.Followers()[0]
	r.asked, r.broken[port(first.Addr())] = nil, true
	r.run(1, []string{first.Addr() + ": ", "refused", "restarted: " + first.Addr() + "; not restarted: ", "--skip " + first.Addr() + " --restart"}, append(command, "--timeout", "4s")...)
	if len(r.asked) != 1 {
		t.Errorf("restarted were %q, want one", r.asked)
	}
	r.asked = nil
	r.run(1, []string{first.Addr() + ": ", "nothing was restarted"}, command...)
	if len(r.asked) > 0 {
		t.Errorf("restarted were %q while a member was away", r.asked)
	}
	ports, err := proc.FreePorts(1)
	must(t, err)
	r.refusing, r.adminPort = first, strconv.Itoa(ports[0])
	first.Configure(map[string]string{"4lw.commands.whitelist": "srvr", "maxSessionTimeout": "50000", "admin.enableServer": "true", "admin.serverPort": r.adminPort})
	first.Launch()
	first.AwaitServing()
	if _, there, err := s.Exists(t.Context(), "/alive"); err != nil || !there {
		t.Errorf("the ephemeral afterwards: %v, %v", there, err)
	}
}

// awaitAdminPort returns when the admin port of a server answers as soon as doctor wants it to. Its first answers take seconds on a
// busy machine.
func awaitAdminPort(t testing.TB, port string) {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		asked := time.Now()
		answer, err := http.Get("http://127.0.0.1:" + port + "/commands/configuration")
		if err == nil {
			answer.Body.Close()
			if time.Since(asked) < time.Second {
				return
			}
		}
		if time.Now().After(limit) {
			t.Fatalf("admin port %s: no answer within a second, for %v: %v", port, patience, err)
		}
	}
}

// latencies returns the average latency in milliseconds of each server, as the server itself tells it.
func (r *rig) latencies() map[string]float64 {
	r.t.Helper()
	average := map[string]float64{}
	for _, server := range r.ensemble.Servers {
		said, err := server.FourLetter("srvr")
		must(r.t, err)
		_, figures, _ := strings.Cut(said, "Latency min/avg/max: ")
		figures, _, _ = strings.Cut(figures, "\n")
		parts := strings.Split(figures, "/")
		if len(parts) != 3 {
			r.t.Fatalf("%s says %q", server.Addr(), said)
		}
		average[server.Addr()], err = strconv.ParseFloat(parts[1], 64)
		must(r.t, err)
	}
	return average
}

// doctor looks at the ensemble, at a member that has only its admin port to tell what words do not, and at the machine.
func (r *rig) doctor(s *client.Session) {
	t := r.t
	t.Helper()
	_, err := s.Create(t.Context(), "/large", make([]byte, 600_000), zk.Persistent, zk.OpenACL())
	must(t, err)
	defer func() { must(t, s.Delete(t.Context(), "/large", -1)) }()
	ports := make([]string, len(r.ensemble.Servers))
	for i, server := range r.ensemble.Servers {
		ports[i] = "1" // which no server has
		if server == r.refusing {
			ports[i] = r.adminPort
		}
	}
	config := filepath.Join(filepath.Dir(r.refusing.DataDir()), "zoo.cfg")
	look := func(args ...string) map[string]string {
		t.Helper()
		var findings []struct{ Check, Server, Evidence string }
		command := append([]string{"doctor", "--json", "--servers", r.ensemble.Connect()}, args...)
		before := r.latencies()
		must(t, json.Unmarshal([]byte(r.run(1, nil, command...)), &findings))
		after := r.latencies()
		found := map[string]string{}
		for _, f := range findings {
			switch {
			case f.Check == "swap": // which is as the machine is
			case f.Check == "latency" && max(before[f.Server], after[f.Server]) > 100: // the server itself says so: the machine is slow
			default:
				found[f.Check] = f.Server + ": " + f.Evidence
			}
		}
		return found
	}
	awaitAdminPort(t, r.adminPort)
	found := look("--admin-port", strings.Join(ports, ","), "--deep", "--config", config)
	for check, words := range map[string]string{
		"open": "world:anyone", "plain": "not encrypted", "large": "/large (600000 bytes)",
		"admin":    r.refusing.Addr() + ": its admin port http://127.0.0.1:" + r.adminPort + " listens on all addresses",
		"timeouts": "600 to ", "autopurge": config, "disk": config,
	} {
		if !strings.Contains(found[check], words) {
			t.Errorf("check %s finds %q, want %q", check, found[check], words)
		}
		delete(found, check)
	}
	if len(found) > 0 {
		t.Errorf("doctor finds what is not so: %q", found)
	}
	found = look("--admin-port", "1")
	if words := found["words"]; !strings.HasPrefix(words, r.refusing.Addr()+": some checks were left out: mntr and conf are refused, and its admin port does not answer") || found["timeouts"] != "" {
		t.Errorf("without the admin port doctor finds %q", found)
	}
}
