package admin

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/server"
)

// A command is one of ZooKeeper's AdminServer. It answers to several names, and is listed under the
// first.
type command struct {
	names []string
	run   func(*handler) object // what it answers, without the fields that all commands have
	// changes says that the command does more than answer.
	changes bool
	// lists says that the answer has a line for each connection, watch or ephemeral, and may take a hundred megabytes.
	lists bool
	// failure is the error of a command that cannot succeed here, as in any ZooKeeper alone.
	failure string
}

var commands = []command{
	{names: []string{"configuration", "conf", "config"}, run: (*handler).configuration},
	{names: []string{"connection_stat_reset", "crst"}, changes: true, run: func(h *handler) object { h.s.ResetConnectionStats(); return nil }},
	{names: []string{"connections", "cons"}, lists: true, run: (*handler).connections},
	{names: []string{"dirs"}, run: (*handler).dirs},
	{names: []string{"dump"}, lists: true, run: (*handler).dump},
	{names: []string{"environment", "env", "envi"}, run: func(*handler) object { return fields(server.Environment()) }},
	{names: []string{"hash"}, run: (*handler).hash},
	{names: []string{"initial_configuration", "icfg"}, run: func(h *handler) object { return object{{"initial_configuration", h.o.Configuration}} }},
	{names: []string{"is_read_only", "isro"}, run: func(*handler) object { return object{{"read_only", false}} }},
	{names: []string{"last_snapshot", "lsnp"}, run: (*handler).lastSnapshot},
	{names: []string{"leader", "lead"}, failure: "server is not initialized"},
	{names: []string{"monitor", "mntr"}, run: func(h *handler) object { return fields(h.s.Monitor()) }},
	{names: []string{"observers", "obsr"}, run: func(*handler) object { return object{{"synced_observers", int64(0)}, {"observers", list{}}} }},
	{names: []string{"ruok"}, run: func(*handler) object { return nil }},
	{names: []string{"server_stats", "srvr"}, run: (*handler).serverStats},
	{names: []string{"stat_reset", "srst"}, changes: true, run: func(h *handler) object { h.s.ResetStats(); return nil }},
	{names: []string{"stats", "stat"}, run: (*handler).stats},
	{names: []string{"voting_view"}, run: func(*handler) object { return object{{"current_config", object{}}} }},
	{names: []string{"watch_summary", "wchs"}, run: (*handler).watchSummary},
	{names: []string{"watches", "wchc"}, lists: true, run: (*handler).watches},
	{names: []string{"watches_by_path", "wchp"}, lists: true, run: (*handler).watchesByPath},
	{names: []string{"zabstate"}, run: func(*handler) object { return object{{"voting", false}, {"zabstate", ""}} }},
}

// byName finds a command by any of its names.
var byName = func() map[string]*command {
	m := make(map[string]*command)
	for i := range commands {
		for _, name := range commands[i].names {
			m[name] = &commands[i]
		}
	}
	return m
}()

// notServing is what a server that has ended answers to every command, as ZooKeeper does.
const notServing = "This ZooKeeper instance is not currently serving requests"

// answer runs a command.
func (h *handler) answer(name string) object {
	c, ok := byName[name]
	if !ok {
		return object{{"command", name}, {"error", "Unknown command: " + name}}
	}
	name = c.names[0]
	switch {
	case h.s.Err() != nil:
		return object{{"command", name}, {"error", notServing}}
	case c.failure != "":
		return object{{"error", c.failure}, {"command", name}}
	}
	return append(c.run(h), field{"command", name}, field{"error", nil})
}

func (h *handler) configuration() object {
	o := h.s.Options()
	plain, secure := h.s.Ports()
	f := object{{"client_port", int64(plain)}}
	if secure >= 0 {
		f = append(f, field{"secure_client_port", int64(secure)})
	}
	return append(f, object{
		{"data_dir", o.DataFolder()},
		{"data_log_dir", o.LogFolder()},
		{"tick_time", o.TickTime.Milliseconds()},
		{"max_client_cnxns", int64(max(o.ConnectionsPerAddressMax, 0))},
		{"min_session_timeout", o.MinSessionTimeout.Milliseconds()},
		{"max_session_timeout", o.MaxSessionTimeout.Milliseconds()},
		{"server_id", int64(0)},
		{"client_port_listen_backlog", int64(-1)},
	}...)
}

// connections lists all connections, those inside TLS apart.
func (h *handler) connections() object {
	return h.listConnections(func(c *server.Connection) object {
		return object{
			{"session_id", c.Session},
			{"last_operation", c.LastOp},
			{"established", c.Opened.UnixMilli()},
			{"session_timeout", c.Timeout.Milliseconds()},
			{"last_cxid", int64(c.LastXid)},
			{"last_zxid", c.LastZxid},
			{"last_response_time", c.LastSent.Milliseconds()},
			{"last_latency", c.LastTook.Milliseconds()},
			{"min_latency", c.Latency.Min},
			{"avg_latency", int64(c.Latency.Mean)},
			{"max_latency", c.Latency.Max},
		}
	})
}

// listConnections lists connections, in which more adds to what all lists have.
func (h *handler) listConnections(more func(*server.Connection) object) object {
	plain, secure := list{}, list{}
	for _, c := range h.s.Connections() {
		waits := int64(1)
		if c.Asking {
			waits = 0
		}
		f := append(object{
			{"remote_socket_address", c.Remote.String()},
			{"interest_ops", waits},
			{"outstanding_requests", int64(c.Outstanding)},
			{"packets_received", c.Received},
			{"packets_sent", c.Sent},
		}, more(&c)...)
		if c.Secure {
			secure = append(secure, f)
		} else {
			plain = append(plain, f)
		}
	}
	return object{{"connections", plain}, {"secure_connections", secure}}
}

func (h *handler) dirs() object {
	data, log := h.s.DirBytes()
	return object{{"datadir_size", data}, {"logdir_size", log}}
}

func (h *handler) dump() object {
	expiry := h.s.Sessions()
	at := make(map[time.Duration]list)
	for _, id := range slices.Sorted(maps.Keys(expiry)) {
		at[expiry[id]] = append(at[expiry[id]], id)
	}
	return object{
		{"expiry_time_to_session_ids", objectOf(at, func(d time.Duration) string { return decimal(d.Milliseconds()) })},
		{"session_id_to_ephemeral_paths", objectOf(lists(h.s.Ephemerals()), decimal)},
	}
}

func (h *handler) hash() object {
	digests := list{}
	for _, d := range h.s.Digests() {
		digests = append(digests, object{{"zxid", d.Zxid}, {"digest", int64(d.Tree)}, {"digest_version", int64(d.Version)}})
	}
	return object{{"digests", digests}}
}

func (h *handler) lastSnapshot() object {
	zxid, written := h.s.LastSnapshot()
	seconds := int64(0)
	if !written.IsZero() {
		seconds = written.Unix()
	}
	return object{{"zxid", strconv.FormatInt(zxid, 16)}, {"timestamp", seconds}}
}

func (h *handler) serverStats() object {
	st := h.s.Stats()
	data, log := h.s.DirBytes()
	return object{
		{"version", server.VersionText()},
		{"read_only", false},
		{"server_stats", object{
			{"packets_sent", st.Sent},
			{"packets_received", st.Received},
			{"fsync_threshold_exceed_count", st.SlowSyncs},
			{"data_dir_size", data},
			{"log_dir_size", log},
			{"server_state", "standalone"},
			{"last_processed_zxid", st.Zxid},
			{"outstanding_requests", int64(st.Outstanding)},
			{"avg_latency", st.Latency.Mean},
			{"max_latency", st.Latency.Max},
			{"min_latency", st.Latency.Min},
			{"num_alive_client_connections", int64(st.Connections)},
			{"uptime", st.Uptime.Milliseconds()},
		}},
		{"node_count", int64(st.Znodes)},
	}
}

func (h *handler) stats() object {
	return append(h.serverStats(), h.listConnections(func(*server.Connection) object { return nil })...)
}

func (h *handler) watchSummary() object {
	connections, paths, watches := h.s.WatchSummary()
	return object{
		{"num_connections", int64(connections)}, {"num_paths", int64(paths)}, {"num_total_watches", int64(watches)},
	}
}

func (h *handler) watches() object {
	return object{{"session_id_to_watched_paths", objectOf(lists(h.s.WatchesBySession()), decimal)}}
}

func (h *handler) watchesByPath() object {
	return object{{"path_to_session_ids", objectOf(lists(h.s.WatchesByPath()), strings.Clone)}}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// fields turns what the server calls fields into JSON's.
func fields(from []server.Field) object {
	o := make(object, len(from), len(from)+2)
	for i, f := range from {
		o[i] = field{f.Name, f.Value}
	}
	return o
}

// lists turns the values of a map into JSON's.
func lists[K comparable, V any](from map[K][]V) map[K]list {
	m := make(map[K]list, len(from))
	for k, vs := range from {
		l := make(list, len(vs))
		for i, v := range vs {
			l[i] = v
		}
		m[k] = l
	}
	return m
}

// objectOf turns a map into an object, in the order of its keys.
func objectOf[K cmp.Ordered](from map[K]list, name func(K) string) object {
	o := object{}
	for _, k := range slices.Sorted(maps.Keys(from)) {
		o = append(o, field{name(k), from[k]})
	}
	return o
}
