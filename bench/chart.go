package main

import (
	"bytes"
	"fmt"
	"html"
	"math"

	"github.com/lockkeeper/lockkeeper/bench/peers"
)

// Measures of the chart, in its units.
const (
	chartWidth  = 860
	chartLabels = 230 // left of the bars
	chartValues = 70  // right of the longest
	barHeight   = 16
	barGap      = 4
	groupGap    = 40
)

// chart draws the rates as bars, a group for each workload, each group to its own scale.
func chart(cells []*cell) []byte {
	var b bytes.Buffer
	group := groupGap + len(peers.Libraries)*(barHeight+barGap)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", chartWidth, len(peers.Workloads)*group+barGap)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	for i, w := range peers.Workloads {
		y := i*group + groupGap
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold">%s: cycles per second</text>`+"\n", chartLabels, y-10, html.EscapeString(w.Name))
		most := 0.0
		for _, l := range peers.Libraries {
			most = math.Max(most, find(cells, l.Name, w).median().Rate())
		}
		for _, l := range peers.Libraries {
			rate := find(cells, l.Name, w).median().Rate()
			width := rate / most * (chartWidth - chartLabels - chartValues)
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, chartLabels-8, y+barHeight-4, html.EscapeString(l.Name))
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, chartLabels, y, width, barHeight, colour(l))
			fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.0f</text>`+"\n", chartLabels+width+6, y+barHeight-4, rate)
			y += barHeight + barGap
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// colour tells ours from others'.
func colour(l peers.Library) string {
	if l.Name == peers.Libraries[0].Name || l.Name == peers.Libraries[1].Name {
		return "#1f6f54"
	}
	return "#9aa5b1"
}
