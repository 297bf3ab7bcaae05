package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	times []time.Duration
}

// floor measures what one cycle of a lock is made of, from the bare machine upwards.
func floor(dir string, each time.Duration) error {
	describe()
	echo, stopEcho, err := startEcho()
	if err != nil {
		return err
	}
	defer stopEcho()
	log, stopLog, err := floorLog(dir)
	if err != nil {
		return err
	}
	defer stopLog()
	steps := []*step{
		{name: "a round trip of 50 bytes over loopback, to a process that does nothing else", once: echo},
		{name: fmt.Sprintf("%d bytes written and synced, into space that holds zeros", recordBytes), once: log},
	}
	for _, unsynced := range []bool{true, false} {
		more, stop, err := floorServer(dir, unsynced)
		if err != nil {
			return err
		}
		defer stop()
		steps = append(steps, more...)
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
		fmt.Printf("%8.1f µs  (%.1f to %.1f)  %s\n", micro(s.times[len(s.times)/2]), micro(s.times[0]), micro(s.times[len(s.times)-1]), s.name)
	}
	return nil
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// measure returns how long the step takes, on average.
func (s *step) measure(each time.Duration) (time.Duration, error) {
	n, begin := 0, time.Now()
	for time.Since(begin) < each {
		if err := s.once(); err != nil {
			return 0, err
		}
		n++
	}
	return time.Since(begin) / time.Duration(n), nil
}

// startEcho starts a process that sends back whatever it gets.
func startEcho() (once func() error, stop func(), err error) {
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
	stop = func() { cmd.Process.Kill(); cmd.Wait() }
	nc, err := l.Accept()
	if err != nil {
		stop()
		return nil, nil, err
	}
	buf := make([]byte, 50)
	return func() error {
		if _, err := nc.Write(buf); err != nil {
			return err
		}
		_, err := io.ReadFull(nc, buf)
		return err
	}, stop, nil
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

// floorLog returns what writes the next record of a log and syncs it.
func floorLog(dir string) (once func() error, stop func(), err error) {
	write, sync, stop, err := zeroedLog(dir)
	if err != nil {
		return nil, nil, err
	}
	record := bytes.Repeat([]byte{1}, recordBytes)
	return func() error {
		if err := write(record); err != nil {
			return err
		}
		return sync()
	}, stop, nil
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
	return func(record []byte) error {
		_, err := f.WriteAt(record, at)
		at = (at + recordBytes) % (size - recordBytes)
		return err
	}, f.Datasync, func() { f.Close() }, nil
}

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
	if unsynced {
		steps = append([]*step{{name: "exists: client, wire, server and back", once: func() error {
			_, _, err := s.Exists(ctx, "/floor")
			return err
		}}}, steps...)
	}
	return steps, stop, nil
}
