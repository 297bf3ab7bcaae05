package lockmetrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/group"
)

// Options configure Metrics. The zero value of every field means its default.
type Options struct {
	// Namespace is the first word of all names. Default "lockkeeper".
	Namespace string

	// LockName returns the value of the label "lock" for the path of a lock. It is called when a lock is asked for. Default: locks
	// have no label.
	LockName func(path string) string

	// Buckets are those of both histograms, in seconds. Default: 1 ms to about 17 minutes, each four times the one before.
	Buckets []float64

	// ConstLabels are labels of all metrics, such as the name of a program.
	ConstLabels prometheus.Labels
}

// Metrics is a prometheus.Collector. It is safe for use by many goroutines.
type Metrics struct {
	// Fixed by New.
	opt             Options
	locks           lockMetrics
	phases          *prometheus.CounterVec
	failures        prometheus.Counter
	collectors      []prometheus.Collector
	ages            ages
	oldest          *prometheus.Desc
	connected       *prometheus.Desc
	timeout         *prometheus.Desc
	znodes, bytes   *prometheus.Desc
	stale, rereads  *prometheus.Desc
	members, behind *prometheus.Desc

	mu struct {
		sync.Mutex
		keepers map[string]*client.Keeper
		caches  map[string]*cache.Cache
		groups  map[string]*group.Group
	}
}

// New returns Metrics, which are to be registered once. It panics at Buckets that do not increase.
func New(opt Options) *Metrics {
	if opt.Namespace == "" {
		opt.Namespace = "lockkeeper"
	}
	if opt.Buckets == nil {
		opt.Buckets = prometheus.ExponentialBuckets(0.001, 4, 11)
	}
	m := &Metrics{opt: opt, ages: ages{begun: map[string]map[*request]time.Time{}}}
	m.mu.keepers, m.mu.caches, m.mu.groups = map[string]*client.Keeper{}, map[string]*cache.Cache{}, map[string]*group.Group{}

	var names []string // labels of locks
	if opt.LockName != nil {
		names = []string{"lock"}
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		o := prometheus.HistogramOpts{Namespace: opt.Namespace, Subsystem: "lock", Name: name, Help: help, ConstLabels: opt.ConstLabels, Buckets: opt.Buckets}
		prometheus.NewHistogram(o) // panics here, at what a HistogramVec panics at when the first lock is granted
		return add(m, prometheus.NewHistogramVec(o, names))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return add(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: opt.Namespace, Subsystem: "lock", Name: name, Help: help, ConstLabels: opt.ConstLabels}, names))
	}
	counter := func(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
		return add(m, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: opt.Namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: opt.ConstLabels}, labels))
	}
	desc := func(subsystem, name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(opt.Namespace, subsystem, name), help, labels, opt.ConstLabels)
	}
	m.locks = lockMetrics{
		wait:      histogram("wait_seconds", "Time from the request for a lock to its grant."),
		hold:      histogram("hold_seconds", "Time from the grant of a lock to its release or loss."),
		held:      gauge("held", "Locks that are held."),
		waiting:   gauge("waiting", "Requests that wait behind another contender."),
		contended: counter("lock", "contended_total", "Requests that had to wait.", names...),
		refused:   counter("lock", "refused_total", "Requests that failed.", append(names, "reason")...),
		lost:      counter("lock", "lost_total", "Locks that were lost.", append(names, "reason")...),
	}
	if opt.LockName == nil {
		m.locks.begin()
	}
	m.oldest = desc("lock", "oldest_hold_seconds", "Age of the oldest hold; 0 without one.", names...)
	m.phases = counter("session", "phases_total", "Changes of sessions.", "phase")
	m.failures = add(m, prometheus.NewCounter(prometheus.CounterOpts{Namespace: opt.Namespace, Subsystem: "session",
		Name: "failures_total", Help: "Attempts to connect that failed.", ConstLabels: opt.ConstLabels}))
	m.connected = desc("session", "connected", "1 while there is a session that is connected.", "session")
	m.timeout = desc("session", "timeout_seconds", "The granted session timeout.", "session")
	m.znodes = desc("cache", "znodes", "Znodes in a cache.", "cache")
	m.bytes = desc("cache", "bytes", "Bytes of paths and data in a cache.", "cache")
	m.stale = desc("cache", "stale", "1 while a cache may be behind the ensemble.", "cache")
	m.rereads = desc("cache", "rereads_total", "How often a cache was read again after a gap.", "cache")
	m.members = desc("group", "members", "Members of a group.", "group")
	m.behind = desc("group", "stale", "1 while the members of a group may be behind the ensemble.", "group")
	return m
}

// add makes a collector a part of m.
func add[C prometheus.Collector](m *Metrics, c C) C {
	m.collectors = append(m.collectors, c)
	return c
}

// label returns the value of the label "lock", if there is such a label.
func (m *Metrics) label(path string) string {
	if m.opt.LockName == nil {
		return ""
	}
	return text(m.opt.LockName(path))
}

// text returns s with a mark in place of what is not UTF-8, at which client_golang panics: a name may have been cut within a letter.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// labels returns the values of the labels of a lock's metric, where the lock has that label.
func (m *Metrics) labels(label string, more ...string) []string {
	if m.opt.LockName == nil {
		return more
	}
	return append([]string{label}, more...)
}

// Trace returns a trace for client.Options. Any number of sessions may share it.
func (m *Metrics) Trace() client.Trace {
	return client.Trace{
		State: func(st client.State) { m.phases.WithLabelValues(st.Phase.String()).Inc() },
		Attempt: func(_ string, err error) {
			if err != nil {
				m.failures.Inc()
			}
		},
	}
}

// AddKeeper shows the session of a Keeper, with the label session=name. A Keeper that has ended is left out, as nil is.
func (m *Metrics) AddKeeper(name string, k *client.Keeper) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.keepers[text(name)] = k
}

// AddCache shows a cache, with the label cache=name. A cache that has ended is left out, as nil is.
func (m *Metrics) AddCache(name string, c *cache.Cache) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.caches[text(name)] = c
}

// AddGroup shows a group, with the label group=name. A group that has ended is left out, as nil is.
func (m *Metrics) AddGroup(name string, g *group.Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.groups[text(name)] = g
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{m.oldest, m.connected, m.timeout, m.znodes, m.bytes, m.stale, m.rereads, m.members, m.behind} {
		ch <- d
	}
}

// Collect sends all metrics. What is read from Keepers, caches and groups is in memory: no request goes to a server.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors {
		c.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	oldest := m.ages.oldest()
	if m.opt.LockName == nil {
		gauge(m.oldest, oldest[""].Seconds())
	} else {
		for label, age := range oldest {
			gauge(m.oldest, age.Seconds(), label)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	over, cancel := context.WithCancel(context.Background())
	cancel() // Session returns at once then
	for name, k := range m.mu.keepers {
		if k == nil || k.Err() != nil {
			delete(m.mu.keepers, name)
			continue
		}
		connected := false
		if s, err := k.Session(over); err == nil {
			st, _ := s.State()
			connected = st.Phase == client.Connected
			gauge(m.timeout, s.Timeout().Seconds(), name)
		}
		gauge(m.connected, number(connected), name)
	}
	for name, c := range m.mu.caches {
		if c == nil || c.Err() != nil {
			delete(m.mu.caches, name)
			continue
		}
		st, _ := c.State()
		gauge(m.znodes, float64(st.View.Len()), name)
		gauge(m.bytes, float64(st.View.Bytes()), name)
		gauge(m.stale, number(st.Stale != nil), name)
		ch <- prometheus.MustNewConstMetric(m.rereads, prometheus.CounterValue, float64(st.Rereads), name)
	}
	for name, g := range m.mu.groups {
		if g == nil || g.Err() != nil {
			delete(m.mu.groups, name)
			continue
		}
		gauge(m.members, float64(len(g.Members())), name)
		gauge(m.behind, number(g.Stale() != nil), name)
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
