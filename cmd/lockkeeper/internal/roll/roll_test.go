package roll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A machine is a member of a world in virtual time.
type machine struct {
	State
	started time.Time
	err     error // why it does not answer
}

// A fakeWorld restarts members without processes.
type fakeWorld struct {
	mu       sync.Mutex
	machines map[string]*machine
	commands []string
	// restart does what the command does, with the machine; nil is a good restart.
	restart func(member string, m *machine) error
}

const config = "server.1=a:2888:3888:participant\nserver.2=b:2888:3888:participant\nserver.3=c:2888:3888:participant\nversion=0\n"

// threeMembers are a leader b and its followers.
func threeMembers() *fakeWorld {
	w := &fakeWorld{machines: map[string]*machine{}}
	for _, name := range []string{"a", "b", "c"} {
		s := State{Mode: follower, Zxid: 0x100000005, Received: 1000, Synced: -1, Members: config}
		if name == "b" {
			s.Mode, s.Synced = leader, 2
		}
		w.machines[name] = &machine{State: s, started: time.Now()}
	}
	return w
}

func (w *fakeWorld) Glance(_ context.Context, member string) (State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[member]
	m.Received++
	if time.Now().Before(m.started) {
		return State{}, errors.New("connection refused")
	}
	s := m.State
	s.Uptime = time.Since(m.started)
	return s, m.err
}

func (w *fakeWorld) Look(ctx context.Context, member string) (State, error) {
	return w.Glance(ctx, member)
}

func (w *fakeWorld) Restart(_ context.Context, member string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = append(w.commands, member)
	m := w.machines[member]
	if w.restart != nil {
		return w.restart(member, m)
	}
	w.goodRestart(m)
	return nil
}

// goodRestart takes five seconds. If the member led, another one does afterwards.
func (w *fakeWorld) goodRestart(m *machine) {
	m.started, m.Received = time.Now().Add(5*time.Second), 0
	if m.Mode == leader {
		m.Mode, m.Synced = follower, -1
		w.machines["c"].Mode, w.machines["c"].Synced = leader, 2
		for _, m := range w.machines {
			m.Zxid = 0x200000001
		}
	}
}

func (w *fakeWorld) options() Options {
	return Options{Members: []string{"a", "b", "c"}, Timeout: time.Minute}
}

func TestRollInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeMembers()
		o := w.options()
		steps, err := Plan(t.Context(), w, o)
		if err != nil || fmt.Sprint(steps) != "[{a follower} {c follower} {b leader}]" || len(w.commands) != 0 {
			t.Errorf("Plan = %v, %v, after the commands %q", steps, err, w.commands)
		}
		var said []string
		o.Say, o.Pause = func(text string) { said = append(said, text) }, time.Minute
		if err := Run(t.Context(), w, o); err != nil {
			t.Error(err)
		}
		if got := strings.Join(w.commands, ""); got != "acb" {
			t.Errorf("restarted %s", got)
		}
		if got := strings.Join(said, "\n"); len(said) != 7 || !strings.Contains(got, "b (leader): restarting") || !strings.Contains(got, "all is well; c leads") {
			t.Errorf("said:\n%s", got)
		}
		w.commands, o.Skip = nil, []string{"a", "c"}
		if err := Run(t.Context(), w, o); err != nil || strings.Join(w.commands, "") != "b" {
			t.Errorf("all but b are skipped: %v, %q", err, w.commands)
		}
	})
}

// A member that was elected to lead with data of another server has an empty configuration until it restarts, as after ensemble grow.
func TestRollWithALeaderWithoutAConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeMembers()
		w.machines["b"].Members = "\n"
		w.restart = func(_ string, m *machine) error {
			w.goodRestart(m)
			m.Members = config
			return nil
		}
		if err := Run(t.Context(), w, w.options()); err != nil || strings.Join(w.commands, "") != "acb" {
			t.Errorf("Run: %v, after %q", err, w.commands)
		}
		w = threeMembers()
		w.machines["a"].Members = "\n"
		if err := Run(t.Context(), w, w.options()); err == nil || !strings.Contains(err.Error(), "different configurations") || len(w.commands) > 0 {
			t.Errorf("of a follower: %v, after %q", err, w.commands)
		}
		for _, m := range w.machines {
			m.Members = "\n"
		}
		if err := Run(t.Context(), w, w.options()); err == nil || !strings.Contains(err.Error(), "name all") || len(w.commands) > 0 {
			t.Errorf("where none is known: %v, after %q", err, w.commands)
		}
	})
}

// Observers come first, and count neither as voters nor as followers.
func TestRollBeginsWithObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeMembers()
		w.machines["d"] = &machine{State: State{Mode: observer, Zxid: 0x100000005, Received: 1000, Synced: -1}, started: time.Now()}
		for _, m := range w.machines {
			m.Members = strings.Replace(config, "version", "server.4=d:2888:3888:observer\nversion", 1)
		}
		o := w.options()
		o.Members = append(o.Members, "d")
		if err := Run(t.Context(), w, o); err != nil || strings.Join(w.commands, "") != "dacb" {
			t.Errorf("Run: %v, after %q", err, w.commands)
		}
	})
}

// haveGroups puts groups and weights into the configuration of all.
func (w *fakeWorld) haveGroups(lines string) {
	for _, m := range w.machines {
		m.Members = strings.Replace(config, "version", lines+"version", 1)
	}
}

func TestRollWithGroups(t *testing.T) {
	for _, lines := range []string{"group.1=1:2:3\nweight.1=1\nweight.2=1\nweight.3=1\n", "group.1=1\ngroup.2=2\ngroup.3=3\nweight.1=9\nweight.2=1\nweight.3=1\n"} {
		synctest.Test(t, func(t *testing.T) {
			w := threeMembers()
			w.haveGroups(lines)
			if err := Run(t.Context(), w, w.options()); err != nil || strings.Join(w.commands, "") != "acb" {
				t.Errorf("%q: %v, after %q", lines, err, w.commands)
			}
		})
	}
}

// A member may serve reads alone until there is a leader again (readonlymode.enabled).
func TestRollWaitsForMembersThatServeReadsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeMembers()
		w.restart = func(member string, m *machine) error {
			w.goodRestart(m)
			mode := m.Mode
			m.Mode = readOnly
			time.AfterFunc(8*time.Second, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				m.Mode = mode
			})
			return nil
		}
		if err := Run(t.Context(), w, w.options()); err != nil || strings.Join(w.commands, "") != "acb" {
			t.Errorf("Run: %v, after %q", err, w.commands)
		}
	})
}

func TestRollBeginsOnlyWhenAllIsWell(t *testing.T) {
	two := strings.Replace(config, "server.3=c:2888:3888:participant\n", "", 1)
	for name, tt := range map[string]struct {
		spoil func(w *fakeWorld, o *Options)
		want  string
	}{
		"one is down":          {func(w *fakeWorld, o *Options) { w.machines["c"].err = errors.New("connection refused") }, "c: connection refused"},
		"no leader":            {func(w *fakeWorld, o *Options) { w.machines["b"].Mode = follower }, "not exactly one"},
		"two leaders":          {func(w *fakeWorld, o *Options) { w.machines["a"].Mode = leader }, "not exactly one"},
		"standalone":           {func(w *fakeWorld, o *Options) { w.machines["a"].Mode = "standalone" }, "a is standalone"},
		"not in sync":          {func(w *fakeWorld, o *Options) { w.machines["b"].Synced = 1 }, "1 of 2 followers are in sync"},
		"other configurations": {func(w *fakeWorld, o *Options) { w.machines["a"].Members = two }, "different configurations"},
		"one is not named": {func(w *fakeWorld, o *Options) {
			o.Members = []string{"a", "b"}
			w.machines["b"].Synced = 1
		}, "name all"},
		"two members": {func(w *fakeWorld, o *Options) {
			o.Members = []string{"a", "b"}
			w.machines["a"].Members, w.machines["b"].Members = two, two
		}, "stops while one of them restarts"},
		"one outweighs the others": {func(w *fakeWorld, o *Options) { w.haveGroups("group.1=1:2:3\nweight.1=5\nweight.2=1\nweight.3=1\n") }, "stops while server.1 restarts"},
		"a group for each of two": {func(w *fakeWorld, o *Options) {
			w.haveGroups("group.1=1:2\ngroup.2=3\nweight.1=1\nweight.2=1\nweight.3=1\n")
		}, "the ensemble stops while server."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := threeMembers()
				o := w.options()
				tt.spoil(w, &o)
				begin := time.Now()
				err := Run(t.Context(), w, o)
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasSuffix(err.Error(), "; nothing was restarted") || len(w.commands) > 0 {
					t.Errorf("Run: %v, after %q; want %q", err, w.commands, tt.want)
				}
				if d := time.Since(begin); d > 2*firstLooks {
					t.Errorf("that took %v", d)
				}
				if _, err := Plan(t.Context(), w, o); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Plan: %v, want %q", err, tt.want)
				}
			})
		})
	}
}

func TestRollStopsAtADoubt(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil    func(w *fakeWorld, member string, m *machine) error // the restart of c, which is the second
		want     string
		commands string
	}{
		"the command fails": {func(*fakeWorld, string, *machine) error { return errors.New("exit status 5") },
			"c: the restart command failed: exit status 5; restarted: a; unknown: c; not restarted: b", "ac"},
		"it does not come back": {func(_ *fakeWorld, _ string, m *machine) error {
			m.started = time.Now().Add(time.Hour)
			return nil
		}, "c: connection refused (not otherwise within 1m0s); restarted: a, c; not restarted: b", "ac"},
		"nothing happens": {func(*fakeWorld, string, *machine) error { return nil },
			"c: its command has ended, and it was not seen to restart (not otherwise within 1m0s); restarted: a; unknown: c; not restarted: b", "ac"},
		"nothing happens, and a look at it fails": {func(w *fakeWorld, _ string, m *machine) error {
			m.err = errors.New("hung up")
			time.AfterFunc(2*time.Second, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				m.err = nil
			})
			return nil
		}, "c: its command has ended, and it was not seen to restart (not otherwise within 1m0s); restarted: a; unknown: c; not restarted: b", "ac"},
		"it lags behind": {func(w *fakeWorld, _ string, m *machine) error {
			w.goodRestart(m)
			m.Zxid = 0x100000001
			return nil
		}, "c: its zxid is 0x100000001, and the leader was at 0x100000005 before", "ac"},
		"it comes back with another configuration": {func(w *fakeWorld, _ string, m *machine) error {
			w.goodRestart(m)
			m.Members = "server.1=a\n"
			return nil
		}, "c and b have different configurations", "ac"},
		"it is not in sync": {func(w *fakeWorld, _ string, m *machine) error {
			w.goodRestart(m)
			w.machines["b"].Synced = 1
			return nil
		}, "1 of 2 followers are in sync", "ac"},
		"another one goes away": {func(w *fakeWorld, _ string, m *machine) error {
			w.goodRestart(m)
			w.machines["a"].err = errors.New("broken pipe")
			return nil
		}, "a: broken pipe", "ac"},
		"an election": {func(w *fakeWorld, _ string, m *machine) error {
			w.goodRestart(m)
			a, b := w.machines["a"], w.machines["b"]
			a.Mode, a.Synced, b.Mode, b.Synced = leader, 2, follower, -1
			return nil
		}, "b is now follower, and was leader: there was an election without a restart of the leader", "ac"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := threeMembers()
				w.restart = func(member string, m *machine) error {
					if member == "c" {
						return tt.spoil(w, member, m)
					}
					w.goodRestart(m)
					return nil
				}
				begin := time.Now()
				err := Run(t.Context(), w, w.options())
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Join(w.commands, "") != tt.commands {
					t.Errorf("Run: %v, after %q; want %q", err, w.commands, tt.want)
				}
				if d := time.Since(begin); d > 2*time.Minute {
					t.Errorf("that took %v", d)
				}
			})
		})
	}
}

// A restart that is over before the command ends is seen all the same, and so is one whose gap was too short to be seen.
func TestRollSeesQuickRestarts(t *testing.T) {
	for name, down := range map[string]time.Duration{"a second": time.Second, "no time": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := threeMembers()
				time.Sleep(time.Hour) // uptime
				w.restart = func(member string, m *machine) error {
					w.goodRestart(m)
					m.started = time.Now().Add(down)
					w.mu.Unlock()
					time.Sleep(10 * time.Second) // the command waits
					w.mu.Lock()
					m.Received = 5000
					return nil
				}
				if err := Run(t.Context(), w, w.options()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A member whose command fails may have been restarted, so nothing says that nothing was.
func TestRollWhoseFirstCommandFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeMembers()
		w.restart = func(string, *machine) error { return errors.New("exit status 255") }
		err := Run(t.Context(), w, w.options())
		const want = "a: the restart command failed: exit status 255; restarted: none; unknown: a; not restarted: c, b"
		if err == nil || err.Error() != want {
			t.Errorf("Run: %v, want %s", err, want)
		}
	})
}

func TestRollIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := threeMembers()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("^C")
		w.restart = func(member string, m *machine) error {
			w.goodRestart(m)
			time.AfterFunc(time.Second, func() { cancel(why) })
			return nil
		}
		err := Run(ctx, w, w.options())
		var how *Error
		if !errors.As(err, &how) || !errors.Is(err, why) || strings.Join(how.Restarted, "") != "a" || strings.Join(how.Left, "") != "cb" {
			t.Errorf("Run: %v", err)
		}
	})
}

// The command has a session of its own, without a terminal. One that asks there for a password would be stopped otherwise, without a word.
func TestRestartHasNoTerminal(t *testing.T) {
	n := Network{Command: `[ "$(cut -d " " -f 6 /proc/$$/stat)" = $$ ] || echo {host} has the session of its caller`, Output: new(strings.Builder)}
	if err := n.Restart(t.Context(), "a:1"); err != nil || n.Output.(*strings.Builder).String() != "" {
		t.Errorf("Restart: %v, %s", err, n.Output)
	}
}

func TestCommand(t *testing.T) {
	for _, tt := range []struct{ command, member, want string }{
		{"ssh {host} systemctl restart zookeeper", "zk1.example.org:2181", "ssh zk1.example.org systemctl restart zookeeper"},
		{"at {address} is {port}", "[::1]:2181", "at [::1]:2181 is 2181"},
		{"ssh {host}", "a;reboot:2181", "!cannot be put into a shell command"},
		{"ssh {host}", "-oProxyCommand=x:2181", "!cannot be put into a shell command"},
		{"ssh {host}", "-x:2181", "!cannot be put into a shell command"},
		{"restart {name}", "a:1", "!{name}: not one of"},
		{"restart", "a:1", "!the same for all members"},
	} {
		got, err := Command(tt.command).For(tt.member)
		if want, refused := strings.CutPrefix(tt.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q for %s: %v, want %q", tt.command, tt.member, err, want)
			}
		} else if err != nil || got != want {
			t.Errorf("%q for %s = %q, %v; want %q", tt.command, tt.member, got, err, want)
		}
	}
}
