package gather

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
)

// answers starts a server that answers these words, refuses others, and returns its address.
func answers(t *testing.T, words map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(c, word); err == nil {
				text, ok := words[string(word)]
				if !ok {
					text = string(word) + " is not executed because it is not in the whitelist.\n"
				}
				io.WriteString(c, text)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return l.Addr().String()
}

const srvr = `Zookeeper version: 3.8.0-abc, built on 2024-12-29 17:54 UTC
Latency min/avg/max: 0/2.5/15
Received: 7
Connections: 2
Outstanding: 1
Zxid: 0x100000002
Mode: leader
Node count: 6
`

// adminAnswers are those of Apache ZooKeeper 3.8, cut short.
func adminAnswers(clientPort string) map[string]string {
	return map[string]string{
		"monitor":           `{"version": "3.8.0", "synced_followers": 2, "avg_fsynctime": 0.5, "a": null, "command": "monitor", "error": null}`,
		"configuration":     `{"client_port": ` + clientPort + `, "tick_time": 300, "min_session_timeout": 600, "max_session_timeout": 6000, "server_id": 2, "data_log_dir": "/d", "command": "configuration", "error": null}`,
		"system_properties": `{"jute.maxbuffer": "4194304", "user.dir": "/", "command": "system_properties", "error": null}`,
		"server_stats": `{"version": "3.8.0-abc, built on 2024-12-29 17:54 UTC", "node_count": 6, "server_stats": {"server_state": "leader", "min_latency": 0, "avg_latency": 2.5,
			"max_latency": 15, "outstanding_requests": 1, "last_processed_zxid": 4294967298, "num_alive_client_connections": 2, "packets_received": 7,
			"client_response_stats": {"last_buffer_size": -1}}, "command": "server_stats", "error": null}`,
		"voting_view": `{"current_config": {
			"1": {"server_addresses": ["a:2888"], "election_addresses": ["a:3888"], "client_address": "", "learner_type": "participant"},
			"3": "c:2888:3888:participant;0.0.0.0:2181", "4": 4,
			"2": {"server_addresses": ["b:2888", "b2:2888"], "election_addresses": ["b:3888", "b2:3889"], "client_address": "0.0.0.0:2181", "learner_type": "participant"}},
			"command": "voting_view", "error": null}`,
	}
}

// remote is a connection that leads to another machine.
type remote struct{ net.Conn }

func (remote) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8080} }

// ask asks one server whose admin port has these answers; nil is no admin port at all.
func ask(t *testing.T, address string, admin map[string]string, isRemote bool) doctor.Server {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := admin[strings.TrimPrefix(r.URL.Path, "/commands/")]
		if !ok {
			text = `{"command": "x", "error": "Unknown command: x"}`
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(h.Close)
	n := Network{
		Dial: (&net.Dialer{}).DialContext, AdminPorts: []string{"8080"},
		DialAdmin: func(ctx context.Context, network, address string) (net.Conn, error) {
			if admin == nil || address != "127.0.0.1:8080" {
				return nil, errors.New("refused " + address)
			}
			c, err := (&net.Dialer{}).DialContext(ctx, network, h.Listener.Addr().String())
			if err == nil && isRemote {
				c = remote{c}
			}
			return c, err
		},
	}
	return n.Servers(t.Context(), []string{address})[0]
}

func TestServerThatAnswersAllWords(t *testing.T) {
	t.Parallel()
	address := answers(t, map[string]string{"srvr": srvr, "mntr": "zk_a\t1\nzk_b\tx y\n", "conf": "clientPort=2181\nmembership: \nserver.1=a:1:2:participant\nversion=0"})
	s := ask(t, address, nil, false)
	if s.Err != nil || s.Status.Mode != "leader" || s.Monitor["zk_b"] != "x y" || s.Config["server.1"] != "a:1:2:participant" || s.VotersOnly || s.Properties != nil {
		t.Errorf("found %+v", s)
	}
	if s.Admin.Err == nil || s.Admin.Err.Error() != "refused 127.0.0.1:8080" {
		t.Errorf("the admin port: %+v", s.Admin)
	}
}

// The admin port tells what words do not, even the status.
func TestServerThatRefusesWords(t *testing.T) {
	t.Parallel()
	address := answers(t, map[string]string{})
	_, port, _ := net.SplitHostPort(address)
	s := ask(t, address, adminAnswers(port), true)
	want := fourletter.Status{Version: "3.8.0-abc", Mode: "leader", LatencyAvg: 2.5, LatencyMax: 15, Connections: 2, Outstanding: 1, Znodes: 6, Zxid: "0x100000002", Received: 7}
	if s.Err != nil || s.Status == nil || *s.Status != want {
		t.Fatalf("the status is %+v, %v", s.Status, s.Err)
	}
	if s.Monitor["zk_synced_followers"] != "2" || s.Monitor["zk_avg_fsynctime"] != "0.5" || s.Monitor["zk_a"] != "" {
		t.Errorf("mntr: %v", s.Monitor)
	}
	if s.Config["serverId"] != "2" || s.Config["maxSessionTimeout"] != "6000" || s.Config["dataLogDir"] != "/d" ||
		s.Config["server.3"] != "c:2888:3888:participant;0.0.0.0:2181" || s.Config["server.4"] != "" ||
		s.Config["server.1"] != "a:2888:3888" || s.Config["server.2"] != "b:2888:3888|b2:2888:3889;0.0.0.0:2181" || !s.VotersOnly {
		t.Errorf("conf: %v", s.Config)
	}
	if s.Properties["jute.maxbuffer"] != "4194304" || !s.Admin.Remote || s.Admin.Err != nil || s.Admin.URL != "http://127.0.0.1:8080" {
		t.Errorf("the properties %v, and the admin port %+v", s.Properties, s.Admin)
	}
}

// Words that are answered count, and the admin port adds the properties.
func TestWordsBeforeTheAdminPort(t *testing.T) {
	t.Parallel()
	address := answers(t, map[string]string{"srvr": srvr, "mntr": "zk_a\t1\n"})
	_, port, _ := net.SplitHostPort(address)
	s := ask(t, address, adminAnswers(port), false)
	if s.Monitor["zk_a"] != "1" || s.Config["serverId"] != "2" || s.Properties == nil || s.Admin.Remote {
		t.Errorf("found %+v", s)
	}
}

// On a machine with several servers the port may be that of another, or of another program.
func TestAdminPortOfAnother(t *testing.T) {
	t.Parallel()
	address := answers(t, map[string]string{"srvr": srvr})
	for want, admin := range map[string]map[string]string{
		"it is of the server with client port 1": adminAnswers("1"),
		"no answer of ZooKeeper's":               {"monitor": "<html>"},
		"Unknown command":                        {},
	} {
		s := ask(t, address, admin, true)
		if s.Admin.Err == nil || !strings.Contains(s.Admin.Err.Error(), want) || s.Admin.Remote || s.Monitor != nil || s.Config != nil || s.Properties != nil {
			t.Errorf("%s: found %+v", want, s)
		}
	}
}

func TestServerThatDoesNotServe(t *testing.T) {
	t.Parallel()
	const text = "This ZooKeeper instance is not currently serving requests"
	address := answers(t, map[string]string{"srvr": text + "\n"})
	s := ask(t, address, map[string]string{"monitor": `{"command": "monitor", "error": "` + text + `"}`}, true)
	if !errors.Is(s.Err, fourletter.ErrNotServing) || s.Status != nil || s.Admin.Err != nil || !s.Admin.Remote {
		t.Errorf("found %+v", s)
	}
}

func TestPlace(t *testing.T) {
	for name, want := range map[string]string{"a": "tcp a:2181", "a:1/b": "tcp a:1", "[::1]": "tcp [::1]:2181", "::1": "tcp [::1]:2181", "unix:/a/b": "unix /a/b"} {
		network, address := Place(name)
		if got := network + " " + address; got != want {
			t.Errorf("%s is at %s, want %s", name, got, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	n := Network{Resolve: func(_ context.Context, host string) ([]string, error) {
		if host == "unknown" {
			return nil, errors.New("no such host")
		}
		return []string{"ip of " + host}, nil
	}}
	found := n.Addresses(t.Context(), []doctor.Server{{Address: "a:2181"}, {Address: "10.0.0.1:2181"}, {Name: "unix:/x"}},
		[]doctor.Member{doctor.ParseMember("server.1", "b:1:2|unknown:1:2;c:2181")})
	if len(found) != 3 || found["a"][0] != "ip of a" || found["b"] == nil || found["c"] == nil {
		t.Errorf("found %v", found)
	}
}

// A server that accepts and says nothing is given up when the user says so.
func TestTheLookHasALimit(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := Network{Dial: (&net.Dialer{}).DialContext, Timeout: 50 * time.Millisecond}
	if s := n.Servers(t.Context(), []string{l.Addr().String()})[0]; s.Err == nil || !strings.Contains(s.Err.Error(), "no answer within 50ms") {
		t.Errorf("a silent server: %v", s.Err)
	}
}
