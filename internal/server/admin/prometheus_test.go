package admin

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A family is all that the text format says about one metric.
type family struct {
	name, typ string
	samples   []sample
}

type sample struct {
	name, label, value string // label is the value of the only label
	number             float64
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(quantile|le)="([^"\\\n]*)"\})? (\S+)$`)
)

// parseMetrics takes the text format apart and believes nothing: every metric has its HELP, its
// TYPE and its samples, in this order and together, and follows the rules of its type.
func parseMetrics(text string) ([]family, error) {
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line does not end")
	}
	var all []family
	seen := map[string]bool{}
	helped := ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fail := func(why string) ([]family, error) { return nil, fmt.Errorf("line %d: %s: %q", i+1, why, line) }
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			if !metricName.MatchString(name) || help == "" || seen[name] {
				return fail("bad name, no help, or a second time")
			}
			helped, seen[name] = name, true
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, typ, _ := strings.Cut(rest, " ")
			if name != helped || !slices.Contains([]string{"gauge", "counter", "summary", "histogram"}, typ) {
				return fail("no help before it, or no such type")
			}
			all, helped = append(all, family{name: name, typ: typ}), ""
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil || helped != "" || len(all) == 0 {
			return fail("no sample, or of no metric")
		}
		n, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return fail(err.Error())
		}
		f := &all[len(all)-1]
		f.samples = append(f.samples, sample{strings.TrimPrefix(m[1], f.name), m[3], m[4], n})
		if !strings.HasPrefix(m[1], f.name) || (m[2] == "quantile") != (f.typ == "summary" && m[1] == f.name) || (m[2] == "le") != (m[1] == f.name+"_bucket") {
			return fail("name or label is not one of this metric")
		}
	}
	for i := range all {
		if err := all[i].check(); err != nil {
			return nil, fmt.Errorf("%s: %w", all[i].name, err)
		}
	}
	return all, nil
}

// check applies the rules of the type.
func (f *family) check() error {
	n := len(f.samples)
	switch f.typ {
	case "gauge", "counter":
		if n != 1 || f.samples[0].name != "" || f.typ == "counter" && !(f.samples[0].number >= 0) {
			return fmt.Errorf("%v is no %s", f.samples, f.typ)
		}
		return nil
	}
	if n < 3 || f.samples[n-2].name != "_sum" || f.samples[n-1].name != "_count" {
		return fmt.Errorf("%v do not end in sum and count", f.samples)
	}
	position, before := math.Inf(-1), 0.0
	for _, s := range f.samples[:n-2] {
		p, err := strconv.ParseFloat(s.label, 64)
		if err != nil || p <= position {
			return fmt.Errorf("label %q after %v", s.label, position)
		}
		position = p
		if f.typ == "summary" && (s.name != "" || p < 0 || p > 1) {
			return fmt.Errorf("no quantile: %v", s)
		}
		if f.typ == "histogram" && (s.name != "_bucket" || s.number < before || s.number != math.Trunc(s.number)) {
			return fmt.Errorf("no bucket: %v", s)
		}
		if !math.IsNaN(s.number) && s.number < before {
			return fmt.Errorf("%v is less than what is below it", s)
		}
		before = s.number
	}
	if f.typ == "histogram" && (!math.IsInf(position, 1) || before != f.samples[n-1].number) {
		return fmt.Errorf("the last bucket is not +Inf with all %v", f.samples[n-1].number)
	}
	return nil
}

func TestTheParserIsStrict(t *testing.T) {
	for _, text := range []string{
		"", "x 1\n", "# HELP x h\n# TYPE x gauge\nx 1", "# TYPE x gauge\nx 1\n", "# HELP x h\nx 1\n",
		"# HELP x h\n# TYPE x gauge\nx 1\nx 2\n", "# HELP x h\n# TYPE x gauge\ny 1\n", "# HELP x h\n# TYPE x counter\nx -1\n",
		"# HELP x h\n# TYPE x gauge\nx one\n", "# HELP x h\n# TYPE x gauge\nx{a=\"b\"} 1\n", "# HELP 1x h\n# TYPE 1x gauge\n1x 1\n",
		"# HELP x h\n# TYPE x summary\nx{quantile=\"0.5\"} 1\nx_sum 1\n", "# HELP x h\n# TYPE x summary\nx{quantile=\"2\"} 1\nx_sum 1\nx_count 1\n",
		"# HELP x h\n# TYPE x histogram\nx_bucket{le=\"1\"} 1\nx_sum 1\nx_count 1\n",
		"# HELP x h\n# TYPE x histogram\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"+Inf\"} 1\nx_sum 1\nx_count 1\n",
		"# HELP x h\n# TYPE x histogram\nx_bucket{le=\"+Inf\"} 2\nx_sum 1\nx_count 1\n",
	} {
		if f, err := parseMetrics(text); err == nil {
			t.Errorf("%q is taken for %v", text, f)
		}
	}
}

// zooKeepers are the names that ZooKeeper's own provider uses, of what is measured here, too.
var zooKeepers = []string{
	"avg_latency", "max_latency", "min_latency", "packets_received", "packets_sent", "num_alive_connections", "outstanding_requests",
	"znode_count", "watch_count", "ephemerals_count", "approximate_data_size", "open_file_descriptor_count", "max_file_descriptor_count",
	"uptime", "global_sessions", "local_sessions", "connection_request_count", "connection_rejected", "stale_sessions_expired",
	"readlatency", "updatelatency", "fsynctime", "snapshottime", "sync_processor_batch_size",
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		release := r.hangDisk()
		r.send(wire.OpCreate, &wire.CreateRequest{Path: "/n", ACL: zk.OpenACL()})
		time.Sleep(100 * time.Millisecond)
		release()
		r.answer()
		synctest.Wait()
		w := r.get("/metrics")
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("%d %s", w.Code, w.Header().Get("Content-Type"))
		}
		all, err := parseMetrics(w.Body.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, w.Body)
		}
		values := map[string]float64{}
		for _, f := range all {
			if ours := strings.HasPrefix(f.name, "lockkeeper_"); ours == slices.Contains(zooKeepers, f.name) {
				t.Errorf("%s is neither ZooKeeper's name nor begins with ours", f.name)
			} else if ours && f.typ == "counter" && !strings.HasSuffix(f.name, "_total") {
				t.Errorf("the counter %s does not end in _total", f.name)
			}
			for _, s := range f.samples {
				values[f.name+s.name+" "+s.label] = s.number
			}
		}
		for name, want := range map[string]float64{
			"znode_count ": 7, "watch_count ": 1, "ephemerals_count ": 1, "num_alive_connections ": 1, "global_sessions ": 1,
			"packets_received ": 4, "packets_sent ": 4, "max_latency ": 100, "avg_latency ": 25,
			"readlatency_count ": 1, "updatelatency_count ": 3, "updatelatency_sum ": 100, "updatelatency 0.5": 0, "updatelatency 0.99": 100,
			"fsynctime_count ": 3, "fsynctime_sum ": 100, "fsynctime 0.5": 0, "sync_processor_batch_size_sum ": 3,
			"lockkeeper_sync_seconds_count ": 3, "lockkeeper_sync_seconds_sum ": 0.1, "lockkeeper_sync_seconds_bucket +Inf": 3,
			"lockkeeper_sync_seconds_bucket 0.067108864": 2, "lockkeeper_sync_seconds_bucket 0.134217728": 3,
			"lockkeeper_healthy ": 1,
		} {
			if got, ok := values[name]; !ok || math.Abs(got-want) > 0.07*want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if got, ok := values["snapshottime 0.5"]; !ok || !math.IsNaN(got) {
			t.Errorf("the median of no snapshots is %v, want NaN", got)
		}
	})
}

func TestHelpIsEscaped(t *testing.T) {
	got := string(appendMetrics(nil, []server.Metric{{Name: "x", Help: "a\\b\nc", Value: math.Inf(1)}}))
	if want := "# HELP x a\\\\b\\nc\n# TYPE x gauge\nx +Inf\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
