//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkFirstCommand runs a command that does nothing under a lock on a machine where no keeper runs
// yet: what it takes beyond BenchmarkCommand is the start of the keeper, which is also asked how much
// memory it takes.
func BenchmarkFirstCommand(b *testing.B) {
	var resident float64
	for b.Loop() {
		b.StopTimer()
		h := newHome(b)
		b.StartTimer()
		h.run("run", "demo", "--", "true").want(0)
		b.StopTimer()
		resident = max(resident, residentMB(b, h.keeperPid()))
		h.clear()
		b.StartTimer()
	}
	b.ReportMetric(resident, "keeper-MB")
}

// BenchmarkCommand does the same while the keeper runs.
func BenchmarkCommand(b *testing.B) {
	h := newHome(b)
	h.run("run", "demo", "--", "true").want(0)
	for b.Loop() {
		h.run("run", "demo", "--", "true").want(0)
	}
	time.Sleep(time.Second) // idle for a moment
	b.ReportMetric(residentMB(b, h.keeperPid()), "keeper-MB")
}

// residentMB returns the memory that a process occupies.
func residentMB(b *testing.B, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	b.Fatalf("process %d has no VmRSS", pid)
	return 0
}
