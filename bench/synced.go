package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// A syncedLog is what the floor server writes what it gets to: as many at once as wait together.
type syncedLog struct {
	append func(record []byte) error
	sync   func() error

	mu      sync.Mutex
	changed sync.Cond
	written int // records
	synced  int
	syncing bool
	err     error
}

// put writes a record and returns when it is on the disk.
func (l *syncedLog) put(record []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.append(record)
	}
	l.written++
	for mine := l.written; l.synced < mine && l.err == nil; {
		if l.syncing {
			l.changed.Wait()
			continue
		}
		l.syncing = true
		upTo := l.written
		l.mu.Unlock()
		err := l.sync()
		l.mu.Lock()
		l.syncing, l.synced, l.err = false, upTo, err
		l.changed.Broadcast()
	}
	return l.err
}

// newSyncedLog makes a log in dir, which it makes too.
func newSyncedLog(dir string) (*syncedLog, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	appendRecord, sync, _, err := zeroedLog(dir) // closed by the end of the process
	if err != nil {
		return nil, err
	}
	l := &syncedLog{append: appendRecord, sync: sync}
	l.changed.L = &l.mu
	return l, nil
}

// serveSynced sends back whatever it gets once that is on the disk: the least that a lock service does.
func serveSynced(addr, dir string) error {
	log, err := newSyncedLog(dir)
	if err != nil {
		return err
	}
	return serveEach(addr, func(nc net.Conn) error {
		record := make([]byte, recordBytes)
		for {
			if _, err := io.ReadFull(nc, record); err != nil {
				return err
			}
			if err := log.put(record); err != nil {
				return err
			}
			if _, err := nc.Write(record); err != nil {
				return err
			}
		}
	})
}

// serveEach serves every client until it hangs up or cannot be served.
func serveEach(addr string, serve func(net.Conn) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer nc.Close()
			if err := serve(nc); err != nil && !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, nc.RemoteAddr(), err)
			}
		}()
	}
}
