package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
	"github.com/lockkeeper/lockkeeper/zk"
)

// healthy is an ensemble without a finding.
func healthy() Ensemble {
	e := Ensemble{RootACL: zk.ReadOnlyACL(), ConfigACL: zk.ReadOnlyACL(), TLS: true, Tree: &Tree{Root: "/", Znodes: 10, Largest: []Znode{{"/a", 1000, 0}}, Widest: []Znode{{"/", 0, 9}}}}
	for i, name := range []string{"a", "b", "c"} {
		mode := "follower"
		if name == "b" {
			mode = "leader"
		}
		id := fmt.Sprint(i + 1)
		e.Members = append(e.Members, ParseMember("server."+id, name+":2888:3888:participant;2181"))
		e.Servers = append(e.Servers, Server{
			Name: name, Address: name + ":2181", Status: &fourletter.Status{Mode: mode, Version: "3.9.3-x", Znodes: 1000, Zxid: "0x500000001"},
			Monitor: map[string]string{
				"zk_synced_followers": "2", "zk_open_file_descriptor_count": "50", "zk_max_file_descriptor_count": "1000", "zk_max_follower_sync_time": "900",
				"zk_max_snapshottime": "3000", "zk_max_startup_snap_load_time": "3000",
			},
			Config: map[string]string{
				"minSessionTimeout": "4000", "maxSessionTimeout": "40000", "initLimit": "10", "tickTime": "2000", "serverId": id,
				"server.1": "a:2888:3888:participant", "server.2": "b:2888:3888:participant", "server.3": "c:2888:3888:participant",
			},
			Properties: map[string]string{propertyAdminAddress: "127.0.0.1", propertyJute: "0x100000"},
			Admin:      AdminPort{URL: "http://" + name + ":8080", Err: errors.New("refused")},
		})
	}
	return e
}

// single is a server alone, with the findings that each has.
func single(e *Ensemble) {
	e.Servers, e.Members = e.Servers[:1], nil
	s := &e.Servers[0]
	s.Status.Mode = "standalone"
	s.Config = map[string]string{"serverId": "0"}
	s.Monitor = map[string]string{}
}

// member is a machine without a finding.
func member() *Machine {
	return &Machine{
		Config: "/etc/zoo.cfg",
		Settings: map[string]string{
			"dataDir": "/data", "dataLogDir": "/log", "initLimit": "10", "syncLimit": "5", "autopurge.purgeInterval": "1", "admin.serverAddress": "127.0.0.1",
			"server.1": "a:2888:3888", "server.2": "b:2888:3888", "server.3": "c:2888:3888",
		},
		DataDir: Dir{Path: "/data", Device: 1}, LogDir: Dir{Path: "/log", Device: 2}, MyID: "2\n",
		Flags: []Flag{{"-Xmx4g", "java.env"}, {"-Xmx2048m", "process 7"}}, MemoryBytes: 4 << 30,
		SwapBytes: 1 << 30, Swappiness: 1, Process: &Process{PID: 7},
	}
}

// A harm makes what is healthy have one finding.
type harm struct {
	check    string
	ensemble func(*Ensemble) // nil looks at the machine alone
	machine  func(*Machine)  // nil looks at the servers alone
	severity Severity
	evidence string // a part of it
}

var harms = []harm{
	{check: "unreachable", ensemble: func(e *Ensemble) { e.Servers[0].Status, e.Servers[0].Err = nil, errors.New("refused") }, severity: Critical, evidence: "refused"},
	{check: "serving", ensemble: func(e *Ensemble) { e.Servers[0].Status, e.Servers[0].Err = nil, fourletter.ErrNotServing }, severity: Critical, evidence: "while others have a leader"},
	{check: "serving", ensemble: func(e *Ensemble) {
		for i := range e.Servers {
			e.Servers[i].Status, e.Servers[i].Err = nil, fourletter.ErrNotServing
		}
	}, severity: Critical, evidence: "no majority"},
	{check: "serving", ensemble: func(e *Ensemble) { e.Servers[0].Status.Mode = "read-only" }, severity: Critical, evidence: "or only reads, while others have a leader"},
	{check: "session", ensemble: func(e *Ensemble) { e.SessionErr = errors.New("not permitted") }, severity: Critical, evidence: "not permitted"},
	{check: "separate", ensemble: func(e *Ensemble) { e.Servers[0].Status.Mode = "standalone" }, severity: Critical, evidence: "a: standalone"},
	{check: "standalone", ensemble: single, severity: Note, evidence: "single"},
	{check: "leaders", ensemble: func(e *Ensemble) { e.Servers[0].Status.Mode = "leader" }, severity: Critical, evidence: "2 leaders: a, b"},
	{check: "leader", ensemble: func(e *Ensemble) { e.Servers[1].Status.Mode = "follower" }, severity: Critical, evidence: "none of the members leads"},
	{check: "sync", ensemble: func(e *Ensemble) { e.Servers[1].Monitor["zk_synced_followers"] = "1" }, severity: Critical, evidence: "1 of the 2 servers"},
	{check: "members", ensemble: func(e *Ensemble) { e.Servers[2].Config["server.3"] = "d:2888:3888" }, severity: Critical, evidence: "server.3=d:2888:3888, and those of /zookeeper/config"},
	{check: "members", ensemble: func(e *Ensemble) { // without /zookeeper/config
		e.Members = nil
		e.Servers[2].Config["server.3"] = "d:2888:3888"
	}, severity: Critical, evidence: "server.3=d:2888:3888, and those of a"},
	{check: "members", ensemble: func(*Ensemble) {}, machine: func(m *Machine) { m.Settings["server.4"] = "d:2888:3888" }, severity: Warning, evidence: "server.4=d"},
	{check: "size", ensemble: func(e *Ensemble) {
		e.Members, e.Servers = e.Members[:2], e.Servers[:2]
		e.Servers[1].Monitor["zk_synced_followers"] = "1"
		delete(e.Servers[0].Config, "server.3")
		delete(e.Servers[1].Config, "server.3")
	}, severity: Warning, evidence: "2 voting members"},
	{check: "list", ensemble: func(e *Ensemble) { e.Servers = e.Servers[:2] }, severity: Note, evidence: "of 3 members, 2 are named; not among the servers: server.3=c:2888:3888"},
	{check: "stranger", ensemble: func(e *Ensemble) { // it is asked by another name
		e.Servers[2].Address, e.Servers[2].Config, e.Servers[2].Name = "d:2181", map[string]string{}, "d"
	}, severity: Note, evidence: "no member has that address"},
	{check: "twice", ensemble: func(e *Ensemble) { e.Servers = append(e.Servers, e.Servers[2]); e.Servers[3].Address = "d:2181" }, severity: Warning, evidence: "same server as c: server.3"},
	{check: "twice", ensemble: func(e *Ensemble) { e.Servers = append(e.Servers, e.Servers[1]) }, severity: Warning, evidence: "same server as b: server.2"}, // the leader
	{check: "znodes", ensemble: func(e *Ensemble) { e.Servers[2].Status.Znodes = 5 }, severity: Critical, evidence: "5 znodes"},
	{check: "epoch", ensemble: func(e *Ensemble) { e.Servers[2].Status.Zxid = "0x400000009" }, severity: Warning, evidence: "of epoch 4"},
	{check: "versions", ensemble: func(e *Ensemble) { e.Servers[2].Status.Version = "3.8.0" }, severity: Warning, evidence: "3.8.0, 3.9.3"},
	{check: "latency", ensemble: func(e *Ensemble) { e.Servers[2].Status.LatencyAvg = 250 }, severity: Warning, evidence: "250 ms"},
	{check: "outstanding", ensemble: func(e *Ensemble) { e.Servers[2].Status.Outstanding = 1000 }, severity: Warning, evidence: "1000 requests"},
	{check: "words", ensemble: func(e *Ensemble) { e.Servers[0].Monitor = nil }, severity: Note, evidence: "mntr is refused, and its admin port does not answer: refused"},
	{check: "descriptors", ensemble: func(e *Ensemble) { e.Servers[0].Monitor["zk_open_file_descriptor_count"] = "900" }, severity: Warning, evidence: "900 of 1000"},
	{check: "fsync", ensemble: func(e *Ensemble) { e.Servers[0].Monitor["zk_avg_fsynctime"] = "1500" }, severity: Warning, evidence: "1500 ms"},
	{check: "snapshot", ensemble: func(e *Ensemble) { // more than half of initLimit as well, if that is not long
		e.Servers[0].Config["initLimit"], e.Servers[0].Monitor["zk_max_snapshottime"] = "100", "45000"
	}, severity: Warning, evidence: "45000 ms"},
	{check: "initlimit", ensemble: func(e *Ensemble) { e.Servers[0].Monitor["zk_max_follower_sync_time"] = "15000" }, severity: Warning, evidence: "took up to 15000 ms, and initLimit × tickTime allows 20000"},
	{check: "initlimit", ensemble: func(e *Ensemble) { e.Servers[0].Monitor["zk_max_startup_snap_load_time"] = "9000" }, severity: Warning, evidence: "an estimate"},
	{check: "initlimit", ensemble: func(e *Ensemble) { // conf is refused, and the file says it
		delete(e.Servers[0].Config, "initLimit")
		e.Servers[0].Monitor["zk_max_follower_sync_time"] = "15000"
	}, machine: func(*Machine) {}, severity: Warning, evidence: "allows 20000"},
	{check: "timeouts", ensemble: func(e *Ensemble) { e.Servers[2].Config["maxSessionTimeout"] = "60000" }, severity: Warning, evidence: "4000 to 60000"},
	{check: "open", ensemble: func(e *Ensemble) { e.RootACL = zk.OpenACL() }, severity: Warning, evidence: "world:anyone"},
	{check: "reconfig", ensemble: func(e *Ensemble) { e.ConfigACL = zk.OpenACL() }, severity: Warning, evidence: "any client may write /zookeeper/config"},
	{check: "reconfig", ensemble: func(e *Ensemble) {
		e.ConfigACL = append(e.ConfigACL, zk.ACL{Perms: zk.PermWrite, Scheme: "digest", ID: "ops:x"})
	}, severity: Note, evidence: "digest:ops:x may write"},
	{check: "reconfig", machine: func(m *Machine) { m.Settings["skipACL"], m.Settings["reconfigEnabled"] = "yes", "true" }, severity: Critical, evidence: "any client can replace"},
	{check: "noacl", ensemble: func(e *Ensemble) { e.Servers[0].Properties[propertySkipACL] = "yes" }, severity: Warning, evidence: "zookeeper.skipACL=yes"},
	{check: "noacl", machine: func(m *Machine) { m.Flags = append(m.Flags, Flag{"-Dzookeeper.skipACL=yes", "java.env"}) }, severity: Warning, evidence: "skipACL=yes"},
	{check: "plain", ensemble: func(e *Ensemble) { e.TLS = false }, severity: Note, evidence: "not encrypted"},
	{check: "admin", ensemble: func(e *Ensemble) { e.Servers[0].Admin = AdminPort{URL: "http://a:8080", Remote: true} }, severity: Warning, evidence: "http://a:8080/commands"},
	{check: "admin", ensemble: func(e *Ensemble) {
		e.Servers[0].Admin.Err = nil
		delete(e.Servers[0].Properties, propertyAdminAddress)
	}, severity: Warning, evidence: "listens on all addresses"},
	{check: "admin", machine: func(m *Machine) { delete(m.Settings, "admin.serverAddress") }, severity: Warning, evidence: "admin port 8080 listens"},
	{check: "trustempty", ensemble: func(e *Ensemble) { e.Servers[0].Properties[propertyTrustEmpty] = "true" }, severity: Warning, evidence: "trust.empty=true"},
	{check: "trustempty", machine: func(m *Machine) { m.Settings["snapshot.trust.empty"] = "true" }, severity: Warning, evidence: "trust.empty=true"},
	{check: "maxbuffer", ensemble: func(e *Ensemble) { delete(e.Servers[2].Properties, propertyJute) }, severity: Warning, evidence: "0x100000 at a, b; not set at c"},
	{check: "maxbuffer", machine: func(m *Machine) { m.Settings["jute.maxbuffer"] = "4194304" }, severity: Warning, evidence: "passes over this line"},
	{check: "large", ensemble: func(e *Ensemble) { e.Tree.Largest[0].Bytes = 900_000 }, severity: Warning, evidence: "/a (900000 bytes)"},
	{check: "wide", ensemble: func(e *Ensemble) { e.Tree.Widest[0].Children = 15_000 }, severity: Warning, evidence: "/ (15000 children)"},
	{check: "wide", ensemble: func(e *Ensemble) { e.Tree.Widest[0].Children = 300_000 }, severity: Critical, evidence: "no client can have it"},
	{check: "deep", ensemble: func(e *Ensemble) { e.Tree.Stopped = "30s are over" }, severity: Note, evidence: "ended after 10 znodes: 30s are over"},
	{check: "deep", ensemble: func(e *Ensemble) { e.Tree.Skipped = []string{"/q"} }, severity: Note, evidence: "below /q"},
	{check: "config", machine: func(m *Machine) { m.Unread = []error{errors.New("dynamicConfigFile: gone")} }, severity: Critical, evidence: "gone"},
	{check: "config", machine: func(m *Machine) { m.DataDir = Dir{} }, severity: Critical, evidence: "dataDir is missing"},
	{check: "config", machine: func(m *Machine) { m.DataDir.Err = fs.ErrNotExist }, severity: Critical, evidence: "not exist"},
	{check: "config", machine: func(m *Machine) { m.LogDir.Err = fs.ErrNotExist }, severity: Critical, evidence: "dataLogDir"},
	{check: "config", machine: func(m *Machine) { // of what is no number it is not known what it would be
		m.Faults, m.Settings["autopurge.purgeInterval"] = []Fault{{"autopurge.purgeInterval=24h: is no number", "/etc/zoo.cfg:9"}}, "24h"
	}, severity: Critical, evidence: "24h: is no number"},
	{check: "config", machine: func(m *Machine) { m.Process, m.Settings["server.2"] = nil, "b:2888:3888|e:2888:3888" }, severity: Critical, evidence: "server.2=b:2888:3888|e:2888:3888"},
	{check: "myid", machine: func(m *Machine) { m.MyIDErr = fs.ErrNotExist }, severity: Critical, evidence: "missing"},
	{check: "myid", machine: func(m *Machine) { m.MyIDErr = fs.ErrPermission }, severity: Note, evidence: "left out: permission denied"},
	{check: "myid", machine: func(m *Machine) { m.MyIDErr = errors.New("is a directory") }, severity: Critical, evidence: "is a directory"},
	{check: "myid", machine: func(m *Machine) { m.MyID = "server.2" }, severity: Critical, evidence: "no number"},
	{check: "myid", machine: func(m *Machine) { m.MyID = "2 \n" }, severity: Critical, evidence: "its first line is \"2 \", and no number"},
	{check: "myid", machine: func(m *Machine) { m.MyID = "" }, severity: Critical, evidence: "no number"},
	{check: "config", machine: func(m *Machine) { m.Settings["clientPort"], m.Settings["server.2"] = "2182", "b:2888:3888;2181" },
		severity: Critical, evidence: "clientPort=2182 and clientPortAddress, which is not set, are not what server.2=b:2888:3888;2181 says"},
	{check: "config", machine: func(m *Machine) {
		m.Settings["clientPort"], m.Settings["clientPortAddress"], m.Settings["server.2"] = "2181", "10.0.0.2", "b:2888:3888;2181"
	}, severity: Critical, evidence: "clientPortAddress, which is 10.0.0.2, are not"},
	{check: "myid", machine: func(m *Machine) { m.MyID = "4" }, severity: Critical, evidence: "there is no server.4"},
	{check: "myid", machine: func(m *Machine) {
		m.MyID = "300"
		m.Settings["server.300"] = m.Settings["server.2"]
		delete(m.Settings, "server.2")
	}, severity: Warning, evidence: "it is 300"},
	{check: "limits", machine: func(m *Machine) { delete(m.Settings, "syncLimit") }, severity: Critical, evidence: "syncLimit is missing"},
	{check: "limits", machine: func(m *Machine) { m.Settings["initLimit"] = "0" }, severity: Critical, evidence: "initLimit is missing or 0"},
	{check: "size", machine: func(m *Machine) { m.Settings["server.4"] = "d:2888:3888" }, severity: Warning, evidence: "4 voting members"},
	{check: "grow", machine: func(m *Machine) {
		maps.DeleteFunc(m.Settings, func(key, _ string) bool { return strings.HasPrefix(key, "server.") })
	}, severity: Note, evidence: "cannot grow by reconfig"},
	{check: "autopurge", machine: func(m *Machine) { m.Settings["autopurge.purgeInterval"] = "0" }, severity: Warning, evidence: "is 0"},
	{check: "autopurge", machine: func(m *Machine) { delete(m.Settings, "autopurge.purgeInterval") }, severity: Warning, evidence: "not set"},
	{check: "disk", machine: func(m *Machine) { m.LogDir.Device = 1 }, severity: Note, evidence: "/log"},
	{check: "heap", machine: func(m *Machine) { m.MemoryBytes = 2 << 30 }, severity: Warning, evidence: "2048 MiB, and the memory is 2048 MiB"},
	{check: "heap", machine: func(m *Machine) { m.Flags = []Flag{{"-XX:MaxRAMPercentage=90.0", "java.env"}} }, severity: Warning, evidence: "3686 MiB, and the memory is 4096 MiB"},
	{check: "swap", machine: func(m *Machine) { m.Process.SwappedBytes = 100 << 20 }, severity: Warning, evidence: "100 MiB of its memory"},
	{check: "swap", machine: func(m *Machine) { m.SwapUsedBytes = 10 << 20 }, severity: Note, evidence: "10 of 1024 MiB"},
	{check: "swap", machine: func(m *Machine) { m.Swappiness = 60 }, severity: Note, evidence: "vm.swappiness is 60"},
}

func TestExamine(t *testing.T) {
	if f := Examine(healthy(), member()); len(f) > 0 {
		t.Errorf("a healthy ensemble and machine: %+v", f)
	}
	for _, h := range harms {
		e, m := healthy(), member()
		switch {
		case h.ensemble == nil:
			e = Ensemble{}
			h.machine(m)
		case h.machine == nil:
			m = nil
			h.ensemble(&e)
		default:
			h.ensemble(&e)
			h.machine(m)
		}
		f := Examine(e, m)
		if len(f) != 1 || f[0].Check != h.check || f[0].Severity != h.severity || !strings.Contains(f[0].Evidence, h.evidence) || f[0].Mend == "" {
			t.Errorf("%s (%s): found %+v", h.check, h.evidence, f)
		}
	}
}

// The list of checks, the page for operators and this test have the same.
func TestEachCheckIsListedAndTested(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, group := range Checks {
		for _, c := range group.Checks {
			listed[c.Name] = true
			if !slices.ContainsFunc(harms, func(h harm) bool { return h.check == c.Name }) {
				t.Errorf("check %s has no test", c.Name)
			}
			if !strings.Contains(string(page), "\n| `"+c.Name+"` | "+c.What+" |") {
				t.Errorf("docs/operations.md has no row for the check %s: %s", c.Name, c.What)
			}
		}
	}
	for _, h := range harms {
		if !listed[h.check] {
			t.Errorf("check %s is not listed", h.check)
		}
	}
}

// What is healthy in its way has no finding.
func TestWhatIsNoHarm(t *testing.T) {
	for name, change := range map[string]func(*Ensemble, *Machine){
		"skipACL, which only yes turns on": func(e *Ensemble, m *Machine) {
			e.Servers[0].Properties[propertySkipACL], m.Settings["skipACL"] = "true", "true"
		},
		"several addresses, as an option of the JVM allows": func(e *Ensemble, m *Machine) {
			m.Process, m.Flags = nil, append(m.Flags, Flag{"-Dzookeeper.multiAddress.enabled=true", "java.env"})
			e.Members[1] = ParseMember("server.2", "b:2888:3888|e:2888:3888;2181")
			m.Settings["server.2"] = "b:2888:3888|e:2888:3888"
			for _, s := range e.Servers {
				s.Config["server.2"] = "b:2888:3888|e:2888:3888;2181"
			}
		},
		"an election a moment ago": func(e *Ensemble, _ *Machine) { // followers have the zxids of before until the first transaction
			e.Servers[0].Status.Zxid, e.Servers[1].Status.Zxid, e.Servers[2].Status.Zxid = "0x0", "0x500000000", "0x400000009"
		},
		"members from the admin port, which tells no observers": func(e *Ensemble, m *Machine) {
			e.Members = append(e.Members, ParseMember("server.4", "d:2888:3888:observer;2181"))
			m.Settings["server.4"] = "d:2888:3888:observer"
			for i := range e.Servers {
				e.Servers[i].VotersOnly = true
			}
			e.Servers = append(e.Servers, e.Servers[0])
			e.Servers[3] = Server{Name: "d", Address: "d:2181", Status: &fourletter.Status{Mode: "observer", Version: "3.9.3", Znodes: 1000, Zxid: "0x500000001"}, Monitor: map[string]string{}, Config: map[string]string{"serverId": "4"}}
		},
		"servers by their addresses": func(e *Ensemble, _ *Machine) {
			e.Addresses = map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "c": {"10.0.0.3"}}
			for i := range e.Servers {
				e.Servers[i].Address = fmt.Sprintf("10.0.0.%d:2181", i+1)
				delete(e.Servers[i].Config, "serverId")
			}
		},
		"a server of ours with the settings of another": func(e *Ensemble, m *Machine) {
			*e = Ensemble{}
			m.Process.Ours = true
			m.Settings = map[string]string{"jute.maxbuffer": "2000000", "autopurge.purgeInterval": "1"}
			m.Faults = []Fault{{"server.1=a: must be HOST:QUORUMPORT:ELECTIONPORT", "/etc/zoo.cfg:9"}}
		},
		"a myid with a line behind the number": func(_ *Ensemble, m *Machine) { m.MyID = "2\r\nnote" },
		"an even number of members in groups": func(e *Ensemble, m *Machine) {
			*e = Ensemble{}
			m.Settings["server.4"], m.Settings["group.1"], m.Settings["group.2"], m.Settings["weight.4"] = "d:2888:3888", "1:2", "3:4", "0"
		},
		"one address for clients in two places": func(_ *Ensemble, m *Machine) {
			m.Settings["clientPort"], m.Settings["clientPortAddress"], m.Settings["server.2"] = "2181", "[::1]", "b:2888:3888;[::1]:2181"
		},
		"all addresses in one of two places": func(_ *Ensemble, m *Machine) {
			m.Settings["clientPort"], m.Settings["server.2"] = "2181", "b:2888:3888;b:2181"
		},
		"addresses that are names": func(_ *Ensemble, m *Machine) {
			m.Settings["clientPort"], m.Settings["clientPortAddress"], m.Settings["server.2"] = "2181", "b.example.org", "b:2888:3888;10.0.0.2:2181"
		},
		"a heap that nothing says": func(_ *Ensemble, m *Machine) { m.Flags = nil },
	} {
		e, m := healthy(), member()
		change(&e, m)
		if f := Examine(e, m); len(f) > 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A server alone needs no myid, but does not start with one that is no number.
func TestMyIDOfAServerAlone(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		err  error
		want int
	}{"missing": {"", fs.ErrNotExist, 0}, "of another": {"7\n", nil, 0}, "a word": {"two\n", nil, 1}, "empty": {"", nil, 1}} {
		m := member()
		delete(m.Settings, "server.1")
		delete(m.Settings, "server.3")
		m.MyID, m.MyIDErr = c.text, c.err
		found := slices.DeleteFunc(Examine(Ensemble{}, m), func(f Finding) bool { return f.Check != "myid" })
		if len(found) != c.want {
			t.Errorf("%s: %v, want %d", name, found, c.want)
		}
	}
}

// A server alone that the list names twice has one set of data.
func TestAServerAloneThatIsNamedTwice(t *testing.T) {
	e := healthy()
	single(&e)
	e.Servers = append(e.Servers, e.Servers[0])
	e.Servers[0].Address, e.Servers[1].Address, e.Servers[1].Name = "localhost:2181", "127.0.0.1:2181", "again"
	e.Addresses = map[string][]string{"localhost": {"::1", "127.0.0.1"}}
	f := Examine(e, nil)
	if len(f) != 2 || f[0].Check != "twice" || f[0].Evidence != "it is the same server as a" || f[1].Check != "standalone" {
		t.Errorf("%+v", f)
	}
	e.Servers[1].Address = "127.0.0.1:2182"
	f = Examine(e, nil)
	if len(f) != 1 || f[0].Check != "separate" {
		t.Errorf("at another port: %+v", f)
	}
}

// One member of a list is enough to see that another is away.
func TestAMemberThatIsNotNamed(t *testing.T) {
	e := healthy()
	e.Servers = e.Servers[1:2]
	e.Servers[0].Monitor["zk_synced_followers"] = "1"
	f := Examine(e, nil)
	if len(f) != 2 || f[0].Check != "sync" || !strings.Contains(f[0].Evidence, "1 of the 2 voting members") || f[1].Check != "list" {
		t.Errorf("the leader alone, with one of two followers: %+v", f)
	}
}

// Members on one machine cannot be told apart by address where their lines have no ports for clients.
func TestMembersOnOneMachine(t *testing.T) {
	e := healthy()
	for i := range e.Members {
		e.Members[i] = ParseMember(fmt.Sprintf("server.%d", i+1), fmt.Sprintf("a:%d:3888", 2888+i))
	}
	e.Servers = e.Servers[:2]
	for i := range e.Servers {
		e.Servers[i].Address, e.Servers[i].Config = fmt.Sprintf("a:%d", 2181+i), map[string]string{}
	}
	e.Servers[1].Monitor = map[string]string{}
	if f := Examine(e, nil); len(f) != 1 || f[0].Check != "list" || f[0].Evidence != "of 3 members, 2 are named" {
		t.Errorf("two of three: %+v", f)
	}
}

// A name in the list that leads nowhere, or elsewhere, is told apart from a member that is down.
func TestStrangers(t *testing.T) {
	e := healthy()
	e.Servers[2] = Server{Name: "old", Address: "old:2181", Err: errors.New("no such host")}
	found := map[string]string{}
	for _, f := range Examine(e, nil) {
		found[f.Check] = f.Server
	}
	if found["unreachable"] != "old" || found["stranger"] != "old" {
		t.Errorf("a server that is no member: %v", found)
	}
	e.Servers[2].Address = "c:2181"
	if f := Examine(e, nil); len(f) != 1 || f[0].Check != "unreachable" {
		t.Errorf("a member that is down: %+v", f)
	}
}

func TestParseMember(t *testing.T) {
	for line, want := range map[string]Member{
		"a:2888:3888":                                  {"7", "a:2888:3888", false, "", false},
		"a:2888:3888:participant;2181":                 {"7", "a:2888:3888", false, "a:2181", false},
		"a:2888:3888:observer;0.0.0.0:2181":            {"7", "a:2888:3888", true, "a:2181", false},
		"a:2888:3888:OBSERVER":                         {"7", "a:2888:3888", true, "", false},
		"b:1:2:observer|a:1:2:observer":                {"7", "a:1:2|b:1:2", true, "", false},
		"[fe80::1]:2888:3888;[fe80::1]:2181;[::]:2281": {"7", "[fe80::1]:2888:3888", false, "[fe80::1]:2181", false},
		"b:2888:3888|a:2888:3888":                      {"7", "a:2888:3888|b:2888:3888", false, "", false},
	} {
		if m := ParseMember("server.7", line); m != want {
			t.Errorf("%s: %+v, want %+v", line, m, want)
		}
	}
}

func TestTheWorstComesFirst(t *testing.T) {
	e := healthy()
	e.TLS, e.RootACL = false, zk.OpenACL()
	e.Servers[2].Status = nil
	var order []Severity
	for _, f := range Examine(e, nil) {
		order = append(order, f.Severity)
	}
	if !slices.Equal(order, []Severity{Critical, Warning, Note}) {
		t.Errorf("the findings are in the order %v", order)
	}
}

// A socket's file says which users are clients, so an open root is none of its own.
func TestAnOpenRootBehindASocketIsNoFinding(t *testing.T) {
	for address, want := range map[string]int{"": 0, "a:2181": 1} {
		e := healthy()
		single(&e)
		e.RootACL = zk.OpenACL()
		e.Servers[0].Address = address
		found := slices.DeleteFunc(Examine(e, nil), func(f Finding) bool { return f.Check != "open" })
		if len(found) != want {
			t.Errorf("address %q: %v, want %d of them", address, found, want)
		}
	}
}
