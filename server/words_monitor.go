package server

import (
	"fmt"
	"strings"
)

func (s *Server) wordMntr(b *strings.Builder) {
	for _, f := range s.Monitor() {
		if v, ok := f.Value.(float64); ok {
			f.Value = javaDouble(v)
		}
		fmt.Fprintf(b, "zk_%s\t%v\n", f.Name, f.Value)
	}
}

// Monitor returns what the word mntr shows: the version, the state, and all metrics that ZooKeeper
// has, too.
func (s *Server) Monitor() []Field {
	fields := []Field{{"version", VersionText()}, {"server_state", "standalone"}}
	for _, m := range s.Metrics() {
		if !strings.HasPrefix(m.Name, "lockkeeper_") {
			fields = m.appendFields(fields)
		}
	}
	return fields
}

// appendFields appends the lines that mntr has for a metric: one for a number, and for a summary
// several; only the mean has decimals.
func (m *Metric) appendFields(to []Field) []Field {
	if m.Kind != Summary {
		if m.Decimal {
			return append(to, Field{m.Name, m.Value})
		}
		return append(to, Field{m.Name, int64(m.Value)})
	}
	v := &m.Values
	whole := func(prefix string, n float64) {
		to = append(to, Field{prefix + m.Name, int64(n / m.PerUnit)})
	}
	to = append(to, Field{"avg_" + m.Name, roundMean(v.Mean() / m.PerUnit)})
	whole("min_", float64(v.Min()))
	whole("max_", float64(v.Max()))
	to = append(to, Field{"cnt_" + m.Name, v.Count()})
	whole("sum_", float64(v.Sum()))
	if m.Detailed {
		for _, p := range []struct {
			name string
			q    float64
		}{{"p50_", 0.5}, {"p95_", 0.95}, {"p99_", 0.99}, {"p999_", 0.999}} {
			n, _ := v.Quantile(p.q)
			whole(p.name, n)
		}
	}
	return to
}
