package lockmetrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Hooks returns hooks for lock.Options. Any number of locks may share them.
func (m *Metrics) Hooks() lock.Hooks {
	return lock.Hooks{Asked: m.asked, Waiting: m.waiting, Granted: m.granted, Released: m.released, Lost: m.lost, Refused: m.refused}
}

// requestKey is the key of a *request in a context. An All has a request for each path in one context.
type requestKey struct {
	m    *Metrics
	path string
}

// A request is what is known of one request for a lock, from Asked to the end of the hold.
type request struct {
	asked time.Time
	label string // of the lock, for the whole request: LockName may return another one later

	mu      sync.Mutex
	waits   bool        // counted as waiting
	granted []time.Time // of holds that have not ended, the oldest first
}

func (m *Metrics) asked(ctx context.Context, path string) context.Context {
	return context.WithValue(ctx, requestKey{m, path}, &request{asked: time.Now(), label: m.label(path)})
}

// of returns the request that a hook is told of. There is none if a lock was refused before it was asked for.
func (m *Metrics) of(ctx context.Context, path string) *request {
	r, _ := ctx.Value(requestKey{m, path}).(*request)
	return r
}

// labelOf returns the label of the lock that a hook is told of.
func (m *Metrics) labelOf(ctx context.Context, path string) string {
	if r := m.of(ctx, path); r != nil {
		return r.label
	}
	return m.label(path)
}

func (m *Metrics) waiting(ctx context.Context, path string, at lock.Place) {
	r := m.of(ctx, path)
	if r == nil || at.Ahead == 0 && at.Delay == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.waits {
		r.waits = true
		m.locks.waiting.WithLabelValues(m.labels(r.label)...).Inc()
		m.locks.contended.WithLabelValues(m.labels(r.label)...).Inc()
	}
}

// stopWaiting counts a request as waiting no more. Its caller holds r.mu.
func (m *Metrics) stopWaiting(r *request) {
	if r.waits {
		r.waits = false
		m.locks.waiting.WithLabelValues(m.labels(r.label)...).Dec()
	}
}

func (m *Metrics) granted(ctx context.Context, path string, _ *lock.Hold) {
	r := m.of(ctx, path)
	if r == nil {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	m.stopWaiting(r)
	if len(r.granted) == 0 {
		m.locks.wait.WithLabelValues(m.labels(r.label)...).Observe(now.Sub(r.asked).Seconds())
	}
	r.granted = append(r.granted, now)
	m.locks.held.WithLabelValues(m.labels(r.label)...).Inc()
	m.ages.begin(r, now)
}

func (m *Metrics) released(ctx context.Context, path string) { m.ended(ctx, path) }

func (m *Metrics) lost(ctx context.Context, path string, err *lock.LostError) {
	m.ended(ctx, path)
	m.locks.lost.WithLabelValues(m.labels(m.labelOf(ctx, path), string(err.Reason()))...).Inc()
}

// ended notes the end of a hold. Permits that were acquired together end one by one, and are not told apart.
func (m *Metrics) ended(ctx context.Context, path string) {
	r := m.of(ctx, path)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.granted) == 0 {
		return
	}
	m.locks.hold.WithLabelValues(m.labels(r.label)...).Observe(time.Since(r.granted[0]).Seconds())
	m.locks.held.WithLabelValues(m.labels(r.label)...).Dec()
	r.granted = r.granted[1:]
	if len(r.granted) == 0 {
		m.ages.end(r)
	}
}

func (m *Metrics) refused(ctx context.Context, path string, err error) {
	if r := m.of(ctx, path); r != nil {
		r.mu.Lock()
		m.stopWaiting(r)
		r.mu.Unlock()
	}
	m.locks.refused.WithLabelValues(m.labels(m.labelOf(ctx, path), reason(err))...).Inc()
}

// reason returns one of a few words for an error.
func reason(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.is) {
			return r.word
		}
	}
	return "other"
}

var reasons = []struct {
	is   error
	word string
}{
	{lock.ErrDeadlock, "deadlock"}, {lock.ErrQueueFull, "queue-full"},
	{context.DeadlineExceeded, "timeout"}, {context.Canceled, "canceled"}, // which also say that the lock is busy
	{lock.ErrBusy, "busy"}, {lock.ErrReentered, "reentered"},
	{zk.ErrSessionExpired, "session-expired"}, {zk.ErrClosed, "session-closed"}, {zk.ErrNoAuth, "not-authorised"},
}

// lockMetrics are those that hooks write.
type lockMetrics struct {
	wait, hold               *prometheus.HistogramVec
	held, waiting            *prometheus.GaugeVec
	contended, refused, lost *prometheus.CounterVec
}

// begin makes the series of locks that share one, so that the first event of each kind is an increase from 0.
func (m *lockMetrics) begin() {
	m.wait.WithLabelValues()
	m.hold.WithLabelValues()
	m.held.WithLabelValues()
	m.waiting.WithLabelValues()
	m.contended.WithLabelValues()
	m.refused.WithLabelValues("other")
	for _, r := range reasons {
		m.refused.WithLabelValues(r.word)
	}
	for _, r := range []lock.LossReason{lock.LossNodeDeleted, lock.LossDeadline, lock.LossSessionExpired, lock.LossSessionClosed, lock.LossOther} {
		m.lost.WithLabelValues(string(r))
	}
}

// ages are the beginnings of the holds that there are.
type ages struct {
	mu    sync.Mutex
	begun map[string]map[*request]time.Time // by the label of the lock
}

func (a *ages) begin(r *request, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun[r.label] == nil {
		a.begun[r.label] = map[*request]time.Time{}
	}
	if _, there := a.begun[r.label][r]; !there {
		a.begun[r.label][r] = at
	}
}

func (a *ages) end(r *request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.begun[r.label], r)
}

// oldest returns the age of the oldest hold by label. The lock is not held while metrics are taken: hooks wait for it.
func (a *ages) oldest() map[string]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	oldest := make(map[string]time.Duration, len(a.begun))
	for label, holds := range a.begun {
		var age time.Duration
		for _, at := range holds {
			age = max(age, time.Since(at))
		}
		oldest[label] = age
	}
	return oldest
}
