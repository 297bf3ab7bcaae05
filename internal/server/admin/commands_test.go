package admin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/server"
)

// Goldens in the layout of ZooKeeper's AdminServer; the interop tests compare with that itself. The
// fields that all have at the end are left out.
var goldenCommands = []struct{ name, want string }{
	{"ruok", `{`},
	{"configuration", `{
  "client_port" : -1,
  "data_dir" : "/data/version-2",
  "data_log_dir" : "/data/version-2",
  "tick_time" : 3000,
  "max_client_cnxns" : 60,
  "min_session_timeout" : 6000,
  "max_session_timeout" : 60000,
  "server_id" : 0,
  "client_port_listen_backlog" : -1,`},
	{"connections", `{
  "connections" : [ {
    "remote_socket_address" : "REMOTE",
    "interest_ops" : 1,
    "outstanding_requests" : 0,
    "packets_received" : 3,
    "packets_sent" : 3,
    "session_id" : SESSION,
    "last_operation" : "GETD",
    "established" : 946684800000,
    "session_timeout" : 10000,
    "last_cxid" : 1,
    "last_zxid" : 2,
    "last_response_time" : 0,
    "last_latency" : 0,
    "min_latency" : 0,
    "avg_latency" : 0,
    "max_latency" : 0
  } ],
  "secure_connections" : [ ],`},
	{"dirs", `{
  "datadir_size" : 66030,
  "logdir_size" : 66030,`},
	{"dump", `{
  "expiry_time_to_session_ids" : {
    "12000" : [ SESSION ]
  },
  "session_id_to_ephemeral_paths" : {
    "SESSION" : [ "/e" ]
  },`},
	{"hash", `{
  "digests" : [ ],`},
	{"initial_configuration", `{
  "initial_configuration" : "dataDir=/data\n",`},
	{"is_read_only", `{
  "read_only" : false,`},
	{"last_snapshot", `{
  "zxid" : "0",
  "timestamp" : 946684800,`},
	{"observers", `{
  "synced_observers" : 0,
  "observers" : [ ],`},
	{"server_stats", `{
  "version" : "VERSION",
  "read_only" : false,
  "server_stats" : {
    "packets_sent" : 3,
    "packets_received" : 3,
    "fsync_threshold_exceed_count" : 0,
    "data_dir_size" : 66030,
    "log_dir_size" : 66030,
    "server_state" : "standalone",
    "last_processed_zxid" : 2,
    "outstanding_requests" : 0,
    "avg_latency" : 0.0,
    "max_latency" : 0,
    "min_latency" : 0,
    "num_alive_client_connections" : 1,
    "uptime" : 0
  },
  "node_count" : 6,`},
	{"stats", `{
  "version" : "VERSION",
  "read_only" : false,
  "server_stats" : {
    "packets_sent" : 3,
    "packets_received" : 3,
    "fsync_threshold_exceed_count" : 0,
    "data_dir_size" : 66030,
    "log_dir_size" : 66030,
    "server_state" : "standalone",
    "last_processed_zxid" : 2,
    "outstanding_requests" : 0,
    "avg_latency" : 0.0,
    "max_latency" : 0,
    "min_latency" : 0,
    "num_alive_client_connections" : 1,
    "uptime" : 0
  },
  "node_count" : 6,
  "connections" : [ {
    "remote_socket_address" : "REMOTE",
    "interest_ops" : 1,
    "outstanding_requests" : 0,
    "packets_received" : 3,
    "packets_sent" : 3
  } ],
  "secure_connections" : [ ],`},
	{"voting_view", `{
  "current_config" : { },`},
	{"watch_summary", `{
  "num_connections" : 1,
  "num_paths" : 1,
  "num_total_watches" : 1,`},
	{"watches", `{
  "session_id_to_watched_paths" : {
    "SESSION" : [ "/e" ]
  },`},
	{"watches_by_path", `{
  "path_to_session_ids" : {
    "/e" : [ SESSION ]
  },`},
	{"zabstate", `{
  "voting" : false,
  "zabstate" : "",`},
	{"connection_stat_reset", `{`},
	{"stat_reset", `{`},
}

func TestGoldenCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		remote := regexp.MustCompile(`("remote_socket_address" : )"[^"]+"`)
		for _, g := range goldenCommands {
			w := r.ask(g.name)
			got := strings.NewReplacer(server.VersionText(), "VERSION", fmt.Sprint(r.session), "SESSION").Replace(w.Body.String())
			got = remote.ReplaceAllString(got, `$1"REMOTE"`)
			want := g.want + "\n  \"command\" : \"" + g.name + "\",\n  \"error\" : null\n}"
			if got != want || w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %s\n%s\nwant\n%s", g.name, w.Code, w.Header().Get("Content-Type"), got, want)
			}
		}
		if got := r.Connections()[0]; got.Received != 0 {
			t.Errorf("after connection_stat_reset, %d requests have been received", got.Received)
		}
		if st := r.Stats(); st.Received != 0 {
			t.Errorf("after stat_reset, %d requests have been received", st.Received)
		}
	})
}

func TestCommandsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		for path, want := range map[string]string{
			"leader":           `{"error" : "server is not initialized", "command" : "leader"}`,
			"lead":             `{"error" : "server is not initialized", "command" : "leader"}`,
			"nonsense":         `{"command" : "nonsense", "error" : "Unknown command: nonsense"}`,
			"a/b":              `{"command" : "a/b", "error" : "Unknown command: a/b"}`,
			"%22%3Cb%3E%0A":    `{"command" : "\"<b>\n", "error" : "Unknown command: \"<b>\n"}`,
			"RUOK":             `{"command" : "RUOK", "error" : "Unknown command: RUOK"}`,
			"restore?x=1":      `{"command" : "restore", "error" : "Unknown command: restore"}`,
			"get_trace_mask":   `{"command" : "get_trace_mask", "error" : "Unknown command: get_trace_mask"}`,
			"%ff":              `{"command" : "\ufffd", "error" : "Unknown command: \ufffd"}`,
			"stat%20_reset%00": `{"command" : "stat _reset\u0000", "error" : "Unknown command: stat _reset\u0000"}`,
		} {
			got := strings.NewReplacer("{\n  ", "{", ",\n  ", ", ", "\n}", "}").Replace(r.ask(path).Body.String())
			if got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
		r.Close()
		for i := range commands {
			name := commands[i].names[0]
			var a struct{ Command, Error string }
			if err := json.Unmarshal(r.ask(name).Body.Bytes(), &a); err != nil || a.Command != name || a.Error != notServing {
				t.Errorf("%s of a server that has ended: %+v, %v", name, a, err)
			}
		}
	})
}

// Every name leads to a command, every command is listed, and what they say is JSON.
func TestAllCommandsAreJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		list := r.get("/commands").Body.String()
		for _, c := range commands {
			if !strings.Contains(list, `<a href="/commands/`+c.names[0]+`">`+c.names[0]+"</a>\n<br/>\n") {
				t.Errorf("%s is not listed", c.names[0])
			}
			for _, name := range c.names {
				var a map[string]any
				if err := json.Unmarshal(r.ask(name).Body.Bytes(), &a); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if a["command"] != c.names[0] {
					t.Errorf("%s is answered as %v, want %s", name, a["command"], c.names[0])
				}
			}
		}
	})
}
