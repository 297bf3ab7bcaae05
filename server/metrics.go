package server

import "github.com/lockkeeper/lockkeeper/internal/server/measure"

// A MetricKind says what the value of a metric may do.
type MetricKind uint8

const (
	Gauge     MetricKind = iota // goes up and down
	Counter                     // goes up, and back to zero with ResetStats
	Summary                     // many values, summed up
	Histogram                   // many values, counted by size
)

// A Metric is one thing that can be measured about a server.
type Metric struct {
	// Name is the one that ZooKeeper's own metrics have where the meaning is the same. Others
	// begin with "lockkeeper_" and are in base units.
	Name string
	Help string // one line
	Kind MetricKind

	// Value is that of a Gauge or a Counter; Decimal says that ZooKeeper writes it with a decimal
	// point even if it is whole.
	Value   float64
	Decimal bool

	// Values are those of a Summary or a Histogram, PerUnit how many of them make one of the unit
	// that is shown. Detailed asks for more quantiles than the median.
	Values   Distribution
	PerUnit  float64
	Detailed bool
}

// A Distribution counts values by their size. The zero value has none.
type Distribution struct{ values measure.Summary }

// Count returns how many values there were.
func (d *Distribution) Count() int64 { return d.values.Count }

// Sum returns the sum of the values.
func (d *Distribution) Sum() int64 { return d.values.Sum }

// Min returns the least value; 0 if there is none.
func (d *Distribution) Min() int64 { return d.values.Min }

// Max returns the greatest value; 0 if there is none.
func (d *Distribution) Max() int64 { return d.values.Max }

// Mean returns the mean of the values; 0 if there is none.
func (d *Distribution) Mean() float64 { return d.values.Mean() }

// Quantile returns the value that a share q of the recent values does not exceed, to within 7 %. It reports false if there are
// none.
func (d *Distribution) Quantile(q float64) (v float64, ok bool) { return d.values.Quantile(q) }

// Below returns how many of all values are less than 2 to the power of exp.
func (d *Distribution) Below(exp int) int64 { return d.values.Below(exp) }

// Units of distributions of nanoseconds, and of those that need none.
const (
	perMilli  = 1e6
	perSecond = 1e9
	perOne    = 1
)

// Metrics measures the server. Those with ZooKeeper's names come first.
func (s *Server) Metrics() []Metric {
	st, now, k := s.Stats(), s.now(), &s.counters
	gauge := func(name string, value int, help string) Metric {
		return Metric{Name: name, Help: help, Value: float64(value)}
	}
	counter := func(name string, value int64, help string) Metric {
		return Metric{Name: name, Help: help, Kind: Counter, Value: float64(value)}
	}
	summary := func(name string, d *measure.Distribution, perUnit float64, help string) Metric {
		return Metric{Name: name, Help: help, Kind: Summary, Values: Distribution{d.Summary(now)}, PerUnit: perUnit}
	}
	detailed := func(m Metric) Metric { m.Detailed = true; return m }
	ms := []Metric{
		{Name: "avg_latency", Help: "Mean time from a request to its answer, pings excepted, in milliseconds.", Value: st.Latency.Mean, Decimal: true},
		gauge("max_latency", int(st.Latency.Max), "Longest time from a request to its answer, in milliseconds."),
		gauge("min_latency", int(st.Latency.Min), "Shortest time from a request to its answer, in milliseconds."),
		gauge("packets_received", int(st.Received), "Requests received."),
		gauge("packets_sent", int(st.Sent), "Answers and events sent."),
		gauge("num_alive_connections", st.Connections, "Connections that are open."),
		gauge("outstanding_requests", st.Outstanding, "Requests that wait for their answers."),
		gauge("znode_count", st.Znodes, "Znodes; the root counts twice."),
		gauge("watch_count", st.Watches, "Watches; a persistent one that is not recursive counts twice."),
		gauge("ephemerals_count", st.Ephemerals, "Ephemeral znodes."),
		gauge("approximate_data_size", int(st.DataBytes), "Bytes of all paths and all data."),
	}
	if open, most, ok := descriptors(); ok {
		ms = append(ms, gauge("open_file_descriptor_count", open, "File descriptors that the process has open."),
			gauge("max_file_descriptor_count", most, "File descriptors that the process may have open."))
	}
	healthy := 0
	if s.Health() == nil {
		healthy = 1
	}
	syncs := summary("fsynctime", &k.syncs, perMilli, "Time that a sync of the transaction log took, in milliseconds.")
	return append(ms,
		gauge("uptime", int(st.Uptime.Milliseconds()), "Time since the start, in milliseconds."),
		gauge("global_sessions", st.Sessions, "Sessions."),
		gauge("local_sessions", 0, "Sessions that only this server knows; there are none of that kind."),
		counter("connection_request_count", k.connects.Load(), "Connect requests."),
		counter("connection_rejected", k.rejected.Load(), "Connections that were hung up on because there were too many."),
		counter("stale_sessions_expired", k.expired.Load(), "Sessions that ended because their clients were silent."),
		detailed(summary("readlatency", &k.reads, perMilli, "Time from a request that changes nothing to its answer, in milliseconds.")),
		detailed(summary("updatelatency", &k.updates, perMilli, "Time from a request for a change to its answer, in milliseconds.")),
		syncs,
		summary("snapshottime", &k.snapshots, perMilli, "Time that it took to write a snapshot, in milliseconds."),
		summary("sync_processor_batch_size", &k.batches, perOne, "Transactions that shared a sync."),
		Metric{Name: "lockkeeper_sync_seconds", Help: "Time that a sync of the transaction log took.", Kind: Histogram, Values: syncs.Values, PerUnit: perSecond},
		counter("lockkeeper_slow_syncs_total", k.slowSyncs.Load(), "Syncs that took as long as is told of in the log (fsync.warningthresholdms), or longer."),
		gauge("lockkeeper_commit_queue_requests", s.queue.size(), "Requests that wait to be committed."),
		gauge("lockkeeper_healthy", healthy, "1 if the server serves and its disk works, else 0."),
	)
}
