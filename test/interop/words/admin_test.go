package words

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notOurs are fields that our server leaves out, because there is nothing that they could say.
var notOurs = []string{
	// Sizes of answers are not measured.
	"client_response", "client_response_stats", "last_buffer_size", "min_buffer_size", "max_buffer_size",
	// Java writes this one only because it has a getter.
	"provider_null",
	// Counts of what only ZooKeeper's Netty does.
	"auth_failed_count", "non_mtlsremote_conn_count", "non_mtlslocal_conn_count",
}

func TestCommandsHaveTheShapeOfZooKeepers(t *testing.T) {
	both := start(t)
	for _, name := range []string{
		"ruok", "configuration", "conf", "config", "connections", "cons", "dirs", "hash", "is_read_only", "isro", "last_snapshot", "lsnp",
		"leader", "lead", "observers", "obsr", "server_stats", "srvr", "stats", "stat", "voting_view", "watch_summary", "wchs", "zabstate",
		"connection_stat_reset", "crst", "stat_reset", "srst", // by POST on our server
		"connections", "server_stats", "nonsense", "a/b", "%3Cb%3E", "ruok?x=y",
	} {
		agree(t, both, name, func(s *subject) string { return sortConnections(s.command(t, name)) })
	}
	for _, name := range []string{"dump", "watches", "wchc", "watches_by_path", "wchp"} {
		agree(t, both, name, func(s *subject) string { return unordered(s.command(t, name)) })
	}
	t.Run("environment and monitor", func(t *testing.T) {
		for _, name := range []string{"environment", "env", "envi", "monitor", "mntr"} {
			fields := [2]map[string]any{}
			for i, s := range both {
				_, _, body := s.get(t, "/commands/"+name)
				if err := json.Unmarshal([]byte(body), &fields[i]); err != nil {
					t.Fatalf("%s: %s: %v", s.name, name, err)
				}
			}
			for k, v := range fields[1] {
				if a, ok := fields[0][k]; k != "go.version" && (!ok || fmt.Sprintf("%T", a) != fmt.Sprintf("%T", v)) {
					t.Errorf("%s: %s is %v, ZooKeeper's %v", name, k, v, a)
				}
			}
			for _, k := range []string{"command", "error", "znode_count", "os.name", "zookeeper.version"} {
				if _, ok := fields[1][k]; ok != (fields[0][k] != nil || k == "error") {
					t.Errorf("%s has a field %s: %v", name, k, ok)
				}
			}
		}
	})
}

// command runs a command, and returns the status, the type and the tidied body, without the fields
// that our server leaves out.
func (s *subject) command(t *testing.T, name string) string {
	status, contentType, body := s.get(t, "/commands/"+name)
	var lines []string
	for line := range strings.Lines(s.tidy(body)) {
		m := fieldLine.FindStringSubmatch(line)
		if m != nil && slices.Contains(notOurs, m[1]) {
			continue
		}
		lines = append(lines, strings.TrimSuffix(strings.TrimSuffix(line, "\n"), ","))
	}
	// What is left of an empty object is its end.
	text := strings.ReplaceAll(strings.Join(lines, "\n"), "\n    }\n    \"data_dir_size\"", "\n    \"data_dir_size\"")
	text = strings.ReplaceAll(text, "\n  }\n  }\n", "\n  }\n")
	return fmt.Sprintf("%d %s\n%s", status, contentType, text)
}

var fieldLine = regexp.MustCompile(`^\s*"(\w+)" : `)

// sortConnections sorts the objects in the list of connections: their order is that of a hash table.
func sortConnections(text string) string {
	found := connection.FindAllString(text, -1)
	slices.Sort(found)
	return connection.ReplaceAllStringFunc(text, func(string) string {
		first := found[0]
		found = found[1:]
		return first
	})
}

var connection = regexp.MustCompile(`\{\n    "remote_socket_address" [^}]*\}`)

// unordered sorts what is between brackets, and then the lines. Sessions that expire at different
// times and such that do not are made to look alike: ticks fall where they fall. So are ticks from
// which ZooKeeper has just moved the last session, which it lists for an instant as empty.
func unordered(text string) string {
	text = emptyTick.ReplaceAllString(text, "")
	text = brackets.ReplaceAllStringFunc(text, func(l string) string {
		items := strings.Split(strings.Trim(l, "[] "), ", ")
		slices.Sort(items)
		return "[ " + strings.Join(items, ", ") + " ]"
	})
	text = strings.ReplaceAll(text, `"TIME" : [ SESSION-A, SESSION-B ]`, "\"TIME\" : [ SESSION-A ]\n    \"TIME\" : [ SESSION-B ]")
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

var (
	brackets  = regexp.MustCompile(`\[ [^\[\]{}]* \]`)
	emptyTick = regexp.MustCompile(`(?m)^\s*"(\d+|TIME)" : \[ *\],?\n`)
)

func TestListOfCommands(t *testing.T) {
	both := start(t)
	_, _, want := both[0].get(t, "/commands")
	for _, path := range []string{"/commands", "/commands/"} {
		status, _, got := both[1].get(t, path)
		// No trace mask, no observers to reset, no properties of a JVM.
		missing := []string{"get_trace_mask", "set_trace_mask", "observer_connection_stat_reset", "system_properties"}
		for _, name := range missing {
			want = strings.Replace(want, fmt.Sprintf("<a href=\"/commands/%s\">%s</a>\n<br/>\n", name, name), "", 1)
		}
		if status != 200 || got != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", path, status, got, want)
		}
	}
}
