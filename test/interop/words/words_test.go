package words

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestWordsHaveTheShapeOfZooKeepers(t *testing.T) {
	both := start(t)
	for _, word := range []string{"ruok", "isro", "srvr", "stat", "conf", "cons", "dump", "wchs", "dirs", "ruok\n", "srv", "nope", "SRVR"} {
		agree(t, both, word, func(s *subject) string { return sortLines(s.tidy(s.ask(t, word))) })
	}
	for _, word := range []string{"wchc", "wchp"} {
		agree(t, both, word, func(s *subject) string { return sortBlocks(s.tidy(s.ask(t, word))) })
	}
	environment(t, both)
	monitor(t, both)
	t.Run("after resets", func(t *testing.T) {
		for _, word := range []string{"crst", "srst", "cons", "srvr"} {
			agree(t, both, word, func(s *subject) string { return sortLines(s.tidy(s.ask(t, word))) })
		}
	})
	t.Run("hash", func(t *testing.T) {
		for i := range 128 {
			for _, s := range both {
				if _, err := s.conns[0].Create(fmt.Sprintf("/h%d", i), nil, 0, nil); err == nil {
					t.Fatal("created without an access control list") // a zxid all the same, and no time in the tree
				}
			}
		}
		sum := regexp.MustCompile(`(?m)^([0-9a-f]+: )-?\d+$`) // znodes know their times, so sums differ
		agree(t, both, "hash", func(s *subject) string { return sum.ReplaceAllString(s.ask(t, "hash"), "${1}SUM") })
	})
}

// environment compares the keys, and the values that are the machine's. Ours has no java.
func environment(t *testing.T, both [2]*subject) {
	a, o := keyValues(both[0].ask(t, "envi"), "="), keyValues(both[1].ask(t, "envi"), "=")
	want := slices.DeleteFunc(a.keys, func(k string) bool { return strings.HasPrefix(k, "java.") })
	got := slices.DeleteFunc(o.keys, func(k string) bool { return k == "go.version" })
	if !slices.Equal(got, want) {
		t.Errorf("envi: our keys are %q, want %q", got, want)
	}
	for _, k := range []string{"os.name", "os.arch", "os.version", "user.name", "user.home", "user.dir"} {
		if o.value[k] != a.value[k] {
			t.Errorf("envi: %s is %q, want %q", k, o.value[k], a.value[k])
		}
	}
}

// monitor compares the metrics: ours are among those of ZooKeeper, of the same kind, and those that
// follow from the state have the same values.
func monitor(t *testing.T, both [2]*subject) {
	a, o := keyValues(both[0].ask(t, "mntr"), "\t"), keyValues(both[1].ask(t, "mntr"), "\t")
	if !slices.Equal(o.keys[:2], a.keys[:2]) {
		t.Errorf("mntr begins with %q, want %q", o.keys[:2], a.keys[:2])
	}
	for _, k := range o.keys {
		v, ok := a.value[k]
		if !ok {
			t.Errorf("mntr: ZooKeeper has no %s", k)
		} else if kind(o.value[k]) != kind(v) {
			t.Errorf("mntr: %s is %q, ZooKeeper's %q", k, o.value[k], v)
		}
	}
	agree(t, both, "mntr", func(s *subject) string {
		now, said := keyValues(s.ask(t, "mntr"), "\t"), ""
		for _, k := range []string{"zk_server_state", "zk_num_alive_connections", "zk_outstanding_requests", "zk_znode_count", "zk_watch_count",
			"zk_ephemerals_count", "zk_approximate_data_size", "zk_global_sessions", "zk_local_sessions", "zk_max_file_descriptor_count",
			"zk_connection_rejected", "zk_stale_sessions_expired"} {
			said += fmt.Sprintf("%s %q\n", k, now.value[k])
		}
		return said
	})
	for _, k := range []string{"zk_cnt_updatelatency", "zk_cnt_readlatency", "zk_cnt_fsynctime", "zk_connection_request_count"} {
		if o.value[k] == "0" || a.value[k] == "0" {
			t.Errorf("mntr: %s is %q, and ZooKeeper's %q: both have been busy", k, o.value[k], a.value[k])
		}
	}
}

// A listing is lines of keys and values.
type listing struct {
	keys  []string
	value map[string]string
}

func keyValues(text, separator string) listing {
	l := listing{value: map[string]string{}}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), separator); ok {
			l.keys, l.value[k] = append(l.keys, k), v
		}
	}
	return l
}

// kind says what a value looks like.
func kind(v string) string {
	for _, k := range []struct {
		name    string
		pattern *regexp.Regexp
	}{{"integer", integer}, {"decimal", decimal}} {
		if k.pattern.MatchString(v) {
			return k.name
		}
	}
	return "text"
}

var (
	integer = regexp.MustCompile(`^-?\d+$`)
	decimal = regexp.MustCompile(`^-?\d+\.\d{1,4}$`)
)
