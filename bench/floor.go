package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/bench/peers"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	recordBytes = peers.FloorRecordBytes
	// floorRounds is how often the steps are measured, by turns; medians count.
	floorRounds = 5
)

// A step is something that is done one after the other, and timed.
type step struct {
	name  string
	once  func() error
	times []time.Duration // medians of the rounds
}

// The steps, from the bare machine upwards.
const (
	stepEcho = iota
	stepLog
	stepSyncedEcho
	stepExists
	stepSet
	stepCycle
	stepSyncedSet
	stepSyncedCycle
	stepLone // and what follows it
)

// floor measures what one cycle of a lock is made of. If apart is set, the servers have one processor and the client another, as
// two machines have.
func floor(dir string, each time.Duration, apart bool) error {
	describe()
	steps := make([]*step, 0, stepSyncedCycle+1)
	for _, prepare := range []func(string) ([]*step, func(), error){floorEcho, floorLog, floorSyncedEcho, floorUnsynced, floorSynced} {
		more, stop, err := prepare(dir)
		if err != nil {
			return err
		}
		defer stop()
		steps = append(steps, more...)
	}
	if apart {
		if err := separate(); err != nil {
			return err
		}
	}
	for round := range 1 + floorRounds { // the first to warm up
		for _, s := range steps {
			d, err := s.measure(each)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if round > 0 {
				s.times = append(s.times, d)
			}
		}
	}
	for _, s := range steps {
		slices.Sort(s.times)
		fmt.Printf("%8.1f µs  (%.1f to %.1f)  %s\n", micro(s.median()), micro(s.times[0]), micro(s.times[len(s.times)-1]), s.name)
	}
	printCycle(steps)
	return nil
}

// printCycle says what a cycle's time is made of, by what each step takes more than the one below it.
func printCycle(steps []*step) {
	took := func(i int) time.Duration { return steps[i].median() }
	fmt.Printf("\nOne cycle of a free lock, two synced writes:\n")
	syncs := took(stepSyncedCycle) - took(stepCycle)
	for _, part := range []struct {
		name string
		took time.Duration
	}{
		{"two round trips of the bare machine", 2 * took(stepEcho)},
		{"two syncs of the bare machine", 2 * took(stepLog)},
		{"a request's way through client and server, twice", 2 * (took(stepExists) - took(stepEcho))},
		{"what a write does more than a read, twice", 2 * (took(stepSet) - took(stepExists))},
		{"what a lock does more than two writes", took(stepCycle) - 2*took(stepSet)},
		{"what two syncs within the server cost more than bare ones", syncs - 2*took(stepLog)},
		{"together", took(stepSyncedCycle)},
		{"the same from a client that is one goroutine and does nothing else", took(stepLone)},
		{"the same from a process that does nothing but write, sync and answer", 2 * took(stepSyncedEcho)},
	} {
		fmt.Printf("%8.1f µs  %s\n", micro(part.took), part.name)
	}
	fmt.Printf("    %.2f  of the rate of the last one is reached\n", float64(2*took(stepSyncedEcho))/float64(took(stepSyncedCycle)))
}

// separate gives the first processor to the processes that this one has started, and the second to this one.
func separate() error {
	self := strconv.Itoa(os.Getpid())
	started, err := exec.Command("pgrep", "-P", self).Output()
	if err != nil {
		return fmt.Errorf("look for the servers' processes: %w", err)
	}
	pin := func(processor, pid string) error {
		if out, err := exec.Command("taskset", "-a", "-p", "-c", processor, pid).CombinedOutput(); err != nil {
			return fmt.Errorf("give process %s a processor: %w\n%s", pid, err, out)
		}
		return nil
	}
	errs := []error{pin("1", self)}
	for _, pid := range strings.Fields(string(started)) {
		if _, err := os.Stat("/proc/" + pid); err == nil { // and not pgrep itself
			errs = append(errs, pin("0", pid))
		}
	}
	return errors.Join(errs...)
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (s *step) median() time.Duration { return s.times[len(s.times)/2] }

// measure returns how long the step takes, in the middle.
func (s *step) measure(each time.Duration) (time.Duration, error) {
	var times []time.Duration
	for begin := time.Now(); time.Since(begin) < each || len(times) == 0; {
		at := time.Now()
		if err := s.once(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// floorEcho starts a process that sends back whatever it gets.
func floorEcho(string) ([]*step, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	cmd := exec.Command(self, "echo", l.Addr().String())
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() { cmd.Process.Kill(); cmd.Wait() }
	nc, err := l.Accept()
	if err != nil {
		stop()
		return nil, nil, err
	}
	return []*step{{
		name: "a round trip of 50 bytes over loopback, to a process that does nothing else",
		once: exchange(nc, 50),
	}}, stop, nil
}

// floorSyncedEcho starts a process that does so once it is on the disk.
func floorSyncedEcho(dir string) ([]*step, func(), error) {
	srv, err := newBare(dir)
	if err != nil {
		return nil, nil, err
	}
	if err := srv.start(); err != nil {
		return nil, nil, err
	}
	nc, err := net.Dial("tcp", srv.addr)
	if err != nil {
		srv.stop()
		return nil, nil, err
	}
	return []*step{{
		name: fmt.Sprintf("both: a round trip of %d bytes, written and synced on the way", recordBytes),
		once: exchange(nc, recordBytes),
	}}, func() { nc.Close(); srv.stop() }, nil
}

// exchange sends so many bytes and reads as many.
func exchange(nc net.Conn, bytes int) func() error {
	buf := make([]byte, bytes)
	return func() error {
		if _, err := nc.Write(buf); err != nil {
			return err
		}
		_, err := io.ReadFull(nc, buf)
		return err
	}
}

// echo is that process.
func echo(addr string) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{nc}, nc) // not by splice, which is no way to read
	return err
}

// floorLog writes the next record of a log and syncs it.
func floorLog(dir string) ([]*step, func(), error) {
	write, sync, stop, err := zeroedLog(dir)
	if err != nil {
		return nil, nil, err
	}
	record := bytes.Repeat([]byte{1}, recordBytes)
	return []*step{{
		name: fmt.Sprintf("%d bytes written and synced, into space that holds zeros", recordBytes),
		once: func() error {
			if err := write(record); err != nil {
				return err
			}
			return sync()
		},
	}}, stop, nil
}

// zeroedLog makes a log in dir whose space holds zeros, as the server lays out its own.
func zeroedLog(dir string) (write func(record []byte) error, sync func() error, stop func(), err error) {
	f, err := vfs.OS{}.Create(filepath.Join(dir, "floor"))
	if err != nil {
		return nil, nil, nil, err
	}
	const size = 16 << 20
	if _, err = f.WriteAt(make([]byte, size), 0); err == nil {
		err = f.Datasync()
	}
	if err != nil {
		f.Close()
		return nil, nil, nil, err
	}
	at := int64(0)
	return func(records []byte) error {
		if at+int64(len(records)) > size {
			at = 0
		}
		_, err := f.WriteAt(records, at)
		at += int64(len(records))
		return err
	}, f.Datasync, func() { f.Close() }, nil
}

func floorUnsynced(dir string) ([]*step, func(), error) { return floorServer(dir, true) }
func floorSynced(dir string) ([]*step, func(), error)   { return floorServer(dir, false) }

// floorServer starts our server and returns what is done to it.
func floorServer(dir string, unsynced bool) ([]*step, func(), error) {
	kind, sub := "synced", filepath.Join(dir, "synced")
	if unsynced {
		kind, sub = "without a sync", filepath.Join(dir, "unsynced")
	}
	if err := os.Mkdir(sub, 0o755); err != nil {
		return nil, nil, err
	}
	srv, err := newOurs(sub)
	if err != nil {
		return nil, nil, err
	}
	if unsynced {
		srv.command = append(srv.command, "--set", "forceSync=no")
	}
	if err := srv.start(); err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	s, err := client.Open(ctx, srv.addr, client.Options{SessionTimeout: 30 * time.Second})
	if err != nil {
		srv.stop()
		return nil, nil, err
	}
	stop := func() { s.Close(ctx); srv.stop() }
	if _, err := s.Create(ctx, "/floor", make([]byte, 100), zk.Persistent, nil); err != nil {
		stop()
		return nil, nil, err
	}
	m, err := lock.NewMutex(s, "/floor-lock", lock.Options{})
	if err != nil {
		stop()
		return nil, nil, err
	}
	steps := []*step{
		{name: "set of 100 bytes, " + kind, once: func() error {
			_, err := s.Set(ctx, "/floor", make([]byte, 100), zk.AnyVersion)
			return err
		}},
		{name: "a cycle of a free lock, " + kind, once: func() error {
			h, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return h.Release(ctx)
		}},
	}
	if !unsynced {
		alone, end, err := loneSteps(srv.addr)
		if err != nil {
			stop()
			return nil, nil, err
		}
		return append(steps, alone...), func() { end(); stop() }, nil
	}
	return append([]*step{{name: "exists: client, wire, server and back", once: func() error {
		_, _, err := s.Exists(ctx, "/floor")
		return err
	}}}, steps...), stop, nil
}
