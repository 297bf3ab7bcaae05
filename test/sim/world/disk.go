package world

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// newDisk makes a disk of what m holds.
func newDisk(w *World, m *vfs.Mem) *disk {
	return &disk{Mem: m, sync: w.plan.Sync, read: map[string]int64{}}
}

// A disk is a vfs.Mem whose syncs take a while, so that a crash finds writes that are under way.
type disk struct {
	*vfs.Mem
	sync time.Duration
	off  atomic.Bool // the process that waited for it has gone

	synced func()           // called when a sync is done; nil if none is wanted
	read   map[string]int64 // how far each log has been read; owned by the caller of synced
}

func (d *disk) Create(path string) (vfs.File, error)    { return d.wrap(d.Mem.Create(path)) }
func (d *disk) Open(path string) (vfs.File, error)      { return d.wrap(d.Mem.Open(path)) }
func (d *disk) OpenWrite(path string) (vfs.File, error) { return d.wrap(d.Mem.OpenWrite(path)) }

func (d *disk) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d}, nil
}

type diskFile struct {
	vfs.File
	d *disk
}

// Datasync takes its time and is then done at once: a crash meanwhile loses what it was to write, or not.
func (f *diskFile) Datasync() error {
	if !f.d.off.Load() {
		time.Sleep(f.d.sync)
	}
	err := f.File.Datasync()
	if err == nil && f.d.synced != nil && !f.d.off.Load() {
		f.d.synced()
	}
	return err
}

// newTxns returns the transactions that have come into the logs since the last call.
func (d *disk) newTxns() []txn.Txn {
	var news []txn.Txn
	for _, name := range d.logs() {
		f, err := d.Mem.Open(name)
		if err != nil {
			continue
		}
		at := max(d.read[name], logHeaderBytes)
		for {
			var header [recordHeaderBytes]byte
			if n, _ := f.ReadAt(header[:], at); n < len(header) {
				break
			}
			length := int64(binary.BigEndian.Uint32(header[8:]))
			if length == 0 {
				break
			}
			record := make([]byte, length)
			f.ReadAt(record, at+recordHeaderBytes)
			t, _, err := txn.Decode(record)
			if err != nil {
				panic(err)
			}
			news = append(news, t)
			at += recordHeaderBytes + length + 1
		}
		d.read[name] = at
		f.Close()
	}
	slices.SortFunc(news, func(a, b txn.Txn) int { return cmp.Compare(a.Zxid, b.Zxid) })
	return news
}

// Of log files; see package store.
const (
	logHeaderBytes    = 16
	recordHeaderBytes = 12
)

// logs returns the paths of all logs.
func (d *disk) logs() []string {
	names, _ := d.Mem.ReadDir(versionDir)
	var logs []string
	for _, name := range names {
		if strings.HasPrefix(name, "log.") {
			logs = append(logs, versionDir+"/"+name)
		}
	}
	return logs
}

// content is a sum over all logs.
func (d *disk) content() uint64 {
	h := fnv.New64a()
	var b []byte
	for _, name := range d.logs() {
		io.WriteString(h, name)
		f, err := d.Mem.Open(name)
		if err != nil {
			continue
		}
		size, _ := f.Size()
		b = slices.Grow(b[:0], int(size))[:size]
		f.ReadAt(b, 0)
		h.Write(b)
		f.Close()
	}
	return h.Sum64()
}
