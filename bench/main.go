// Command bench compares our server with Apache ZooKeeper 3.8.0, as Debian packages it: both on this
// machine and this disk, in one run, with fsync, driven by the same third-party client.
//
//	go run . server
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "server" {
		fmt.Fprintln(os.Stderr, "usage: bench server [flags]")
		os.Exit(64)
	}
	flags := flag.NewFlagSet("server", flag.ExitOnError)
	each := flags.Duration("each", 3*time.Second, "how long to run a workload each time")
	znodes := flags.Int("znodes", 1_000_000, "how many znodes to measure memory with; 0 for none")
	apacheToo := flags.Bool("apache-memory", false, "measure Apache's memory, too, which takes long")
	flags.Parse(os.Args[2:])
	if err := compare(*each, *znodes, *apacheToo); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// rounds is how often each workload is run on each server, after once to warm up; the median counts.
const rounds = 3

// compare measures everything and prints the table.
func compare(each time.Duration, znodes int, apacheToo bool) error {
	dir, err := os.MkdirTemp(".", "data-") // on this disk: /tmp may be in memory
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ours, err := newOurs(dir)
	if err != nil {
		return err
	}
	defer ours.stop()
	apache, err := newApache(dir)
	if err != nil {
		return err
	}
	defer apache.stop()
	describe()
	both := []*server{ours, apache}
	for _, s := range both {
		begin := time.Now()
		if err := s.start(); err != nil {
			return err
		}
		fmt.Printf("%s: serves after %v with no data (target for ours <= 50 ms)\n", s.name, time.Since(begin).Round(time.Millisecond))
	}
	fmt.Printf("%-34s %12s %12s %8s  %s\n", "", "lockkeeper", "apache", "ratio", "target")
	for _, l := range loads {
		rates := map[*server][]float64{}
		for round := range 1 + rounds {
			for _, s := range both {
				rate, err := l.measure(s.addr, each)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", l.name, s.name, err)
				}
				if round > 0 {
					rates[s] = append(rates[s], rate)
				}
			}
		}
		a, b := median(rates[ours]), median(rates[apache])
		fmt.Printf("%-34s %10.0f/s %10.0f/s %7.2fx  >= %.1fx\n", l.name, a, b, a/b, l.target)
	}
	for _, s := range both {
		s.stop()
	}
	if znodes == 0 {
		return nil
	}
	if err := measureMemory(ours, znodes, "<= 300 MB added, <= 3 s to open"); err != nil || !apacheToo {
		return err
	}
	return measureMemory(apache, znodes, "none")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// describe says what was measured on what.
func describe() {
	cpu := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				cpu = strings.Trim(name, "\t :\n")
				break
			}
		}
	}
	version := func(pkg string) string {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", pkg).Output()
		if err != nil {
			return "of unknown version"
		}
		return string(out)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s, %d CPUs, %s, load before %s", cpu, runtime.NumCPU(), runtime.Version(), load)
	fmt.Printf("Apache ZooKeeper %s; client go-zookeeper 1.0.4, in this process; median of %d\n\n", version("zookeeper"), rounds)
}
