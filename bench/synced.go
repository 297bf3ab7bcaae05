package main

import (
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

// serveSynced sends back whatever it gets once that is on the disk: the least that a lock service does.
func serveSynced(addr, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	appendRecord, sync, stop, err := zeroedLog(dir)
	if err != nil {
		return err
	}
	defer stop()
	log := &syncedLog{append: appendRecord, sync: sync}
	log.changed.L = &log.mu
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
			record := make([]byte, recordBytes)
			for {
				if _, err := io.ReadFull(nc, record); err != nil {
					return
				}
				if err := log.put(record); err != nil {
					return
				}
				if _, err := nc.Write(record); err != nil {
					return
				}
			}
		}()
	}
}
