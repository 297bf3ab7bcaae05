package doctor

import (
	"errors"
	"slices"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
	"github.com/lockkeeper/lockkeeper/zk"
)

// healthy is an ensemble without a finding.
func healthy() Ensemble {
	e := Ensemble{RootACL: zk.ReadOnlyACL(), TLS: true, Members: []string{"server.1=a", "server.2=b", "server.3=c"}}
	for _, name := range []string{"a", "b", "c"} {
		mode := "follower"
		if name == "b" {
			mode = "leader"
		}
		e.Servers = append(e.Servers, Server{
			Name: name, Status: &fourletter.Status{Mode: mode, Version: "3.9.3-x", Znodes: 1000, Zxid: "0x500000001"},
			Monitor: map[string]string{"zk_synced_followers": "2", "zk_open_file_descriptor_count": "50", "zk_max_file_descriptor_count": "1000"},
			Config:  map[string]string{"minSessionTimeout": "4000", "maxSessionTimeout": "40000", "server.1": "a", "server.2": "b", "server.3": "c"},
		})
	}
	return e
}

func TestExamine(t *testing.T) {
	if f := Examine(healthy()); len(f) > 0 {
		t.Errorf("a healthy ensemble: %+v", f)
	}
	for check, harm := range map[string]func(*Ensemble){
		"unreachable": func(e *Ensemble) { e.Servers[0].Status, e.Servers[0].Err = nil, errors.New("refused") },
		"separate":    func(e *Ensemble) { e.Servers[0].Status.Mode = "standalone" },
		"standalone": func(e *Ensemble) {
			e.Servers, e.Members = e.Servers[:1], nil
			e.Servers[0].Status.Mode = "standalone"
			delete(e.Servers[0].Config, "server.1")
			delete(e.Servers[0].Config, "server.2")
			delete(e.Servers[0].Config, "server.3")
		},
		"leaders": func(e *Ensemble) { e.Servers[0].Status.Mode = "leader" },
		"leader":  func(e *Ensemble) { e.Servers[1].Status.Mode = "follower" },
		"sync":    func(e *Ensemble) { e.Servers[1].Monitor["zk_synced_followers"] = "1" },
		"members": func(e *Ensemble) { e.Servers[2].Config["server.3"] = "d" },
		"size": func(e *Ensemble) {
			e.Members = e.Members[:2]
			e.Servers = e.Servers[:2]
			e.Servers[1].Monitor["zk_synced_followers"] = "1"
			delete(e.Servers[0].Config, "server.3")
			delete(e.Servers[1].Config, "server.3")
		},
		"list":        func(e *Ensemble) { e.Servers = e.Servers[:2] },
		"znodes":      func(e *Ensemble) { e.Servers[2].Status.Znodes = 5 },
		"epoch":       func(e *Ensemble) { e.Servers[2].Status.Zxid = "0x400000009" },
		"versions":    func(e *Ensemble) { e.Servers[2].Status.Version = "3.8.0" },
		"latency":     func(e *Ensemble) { e.Servers[2].Status.LatencyAvg = 250 },
		"outstanding": func(e *Ensemble) { e.Servers[2].Status.Outstanding = 1000 },
		"words":       func(e *Ensemble) { e.Servers[0].Monitor = nil },
		"descriptors": func(e *Ensemble) { e.Servers[0].Monitor["zk_open_file_descriptor_count"] = "900" },
		"fsync":       func(e *Ensemble) { e.Servers[0].Monitor["zk_avg_fsynctime"] = "1500" },
		"timeouts":    func(e *Ensemble) { e.Servers[2].Config["maxSessionTimeout"] = "60000" },
		"open":        func(e *Ensemble) { e.RootACL = zk.OpenACL() },
		"plain":       func(e *Ensemble) { e.TLS = false },
	} {
		e := healthy()
		harm(&e)
		f := Examine(e)
		if len(f) != 1 || f[0].Check != check || f[0].Evidence == "" || f[0].Mend == "" {
			t.Errorf("%s: found %+v", check, f)
		}
	}
}

// Right after an election followers have the zxids of the epoch before, until the first transaction.
func TestAfterAnElection(t *testing.T) {
	e := healthy()
	e.Servers[0].Status.Zxid, e.Servers[1].Status.Zxid, e.Servers[2].Status.Zxid = "0x0", "0x500000000", "0x400000009"
	if f := Examine(e); len(f) > 0 {
		t.Errorf("an ensemble that has just elected a leader: %+v", f)
	}
}

func TestTheWorstComesFirst(t *testing.T) {
	e := healthy()
	e.TLS, e.RootACL = false, zk.OpenACL()
	e.Servers[2].Status = nil
	var order []Severity
	for _, f := range Examine(e) {
		order = append(order, f.Severity)
	}
	if !slices.Equal(order, []Severity{Critical, Warning, Note}) {
		t.Errorf("the findings are in the order %v", order)
	}
}
