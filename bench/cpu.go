package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTicks is how many a second /proc counts processor time in: the same on every Linux.
const clockTicks = 100

// A moment is what the processors have done so far.
type moment struct {
	at                      time.Time
	server, client, machine time.Duration // of processors; the machine's is all but idling, the others' too
}

// now looks at the clocks, with s as the server and this process as the client.
func (s *server) now() (m moment, err error) {
	if m.server, err = s.cpuTime(); err != nil {
		return m, err
	}
	if m.machine, err = machineTime(); err != nil {
		return m, err
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return m, err
	}
	m.client = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	m.at = time.Now()
	return m, nil
}

// cpuTime returns the time that processors have worked for the server's process, in the kernel too.
func (s *server) cpuTime() (time.Duration, error) {
	path := fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid)
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name may hold anything
	const user, system = 11, 12                // counted from the field behind the name
	fields := strings.Fields(rest)
	if len(fields) <= system {
		return 0, fmt.Errorf("%s: %q", path, b)
	}
	return ticks(fields[user], fields[system])
}

// machineTime returns the time that processors have worked for all processes.
func machineTime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq …
	if len(fields) < 8 {
		return 0, fmt.Errorf("/proc/stat: %q", line)
	}
	return ticks(fields[1], fields[2], fields[3], fields[6], fields[7])
}

func ticks(counts ...string) (time.Duration, error) {
	var sum int64
	for _, c := range counts {
		n, err := strconv.ParseInt(c, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / clockTicks, nil
}

// A run is a load that was done for a while.
type run struct {
	done                   int64
	took                   time.Duration
	server, client, others time.Duration // of processors
}

func runBetween(a, b moment, done int64) run {
	r := run{done: done, took: b.at.Sub(a.at), server: b.server - a.server, client: b.client - a.client}
	r.others = max(b.machine-a.machine-r.server-r.client, 0)
	return r
}

// rate is in operations a second.
func (r run) rate() float64 { return float64(r.done) / r.took.Seconds() }

// perOp is the processor time d for one operation, in microseconds.
func (r run) perOp(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(r.done) }

// share is d as a part of what all processors could have done.
func (r run) share(d time.Duration) float64 {
	return d.Seconds() / r.took.Seconds() / float64(runtime.NumCPU())
}
