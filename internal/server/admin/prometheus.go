package admin

import (
	"math"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/server"
)

// metricsType is the content type of the text format.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// Quantiles of a summary, as ZooKeeper's provider has them.
var (
	median          = []float64{0.5}
	detailQuantiles = []float64{0.5, 0.9, 0.99}
)

// A histogram of times has the powers of two of nanoseconds as bounds, from 16 microseconds to
// 4 seconds: what lies below those is counted exactly.
const histogramExpMin, histogramExpMax = 14, 32

// appendMetrics appends metrics in the text format.
func appendMetrics(b []byte, metrics []server.Metric) []byte {
	for i := range metrics {
		m := &metrics[i]
		b = append(append(append(append(b, "# HELP "...), m.Name...), ' '), escapeHelp.Replace(m.Help)...)
		b = append(append(append(append(b, "\n# TYPE "...), m.Name...), ' '), kinds[m.Kind]...)
		b = append(b, '\n')
		switch m.Kind {
		case server.Summary:
			b = appendSummary(b, m)
		case server.Histogram:
			b = appendHistogram(b, m)
		default:
			b = appendSample(b, m.Name, "", m.Value)
		}
	}
	return b
}

var kinds = map[server.MetricKind]string{
	server.Gauge: "gauge", server.Counter: "counter", server.Summary: "summary", server.Histogram: "histogram",
}

var escapeHelp = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

func appendSummary(b []byte, m *server.Metric) []byte {
	qs := median
	if m.Detailed {
		qs = detailQuantiles
	}
	for _, q := range qs {
		v, ok := m.Values.Quantile(q)
		if !ok {
			v = math.NaN()
		}
		b = appendSample(b, m.Name, `{quantile="`+formatFloat(q)+`"}`, v/m.PerUnit)
	}
	return appendTotals(b, m)
}

func appendHistogram(b []byte, m *server.Metric) []byte {
	for exp := histogramExpMin; exp <= histogramExpMax; exp++ {
		le := formatFloat(float64(int64(1)<<exp) / m.PerUnit)
		b = appendSample(b, m.Name+"_bucket", `{le="`+le+`"}`, float64(m.Values.Below(exp)))
	}
	b = appendSample(b, m.Name+"_bucket", `{le="+Inf"}`, float64(m.Values.Count()))
	return appendTotals(b, m)
}

func appendTotals(b []byte, m *server.Metric) []byte {
	b = appendSample(b, m.Name+"_sum", "", float64(m.Values.Sum())/m.PerUnit)
	return appendSample(b, m.Name+"_count", "", float64(m.Values.Count()))
}

func appendSample(b []byte, name, labels string, v float64) []byte {
	b = append(append(append(append(b, name...), labels...), ' '), formatFloat(v)...)
	return append(b, '\n')
}

// formatFloat writes a number as the format wants it, NaN included.
func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
