package roles

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A feed is a disk that passes on each transaction once it has been synced.
type feed struct {
	*vfs.Mem
	synced func(txn.Txn)

	read map[string]int64 // how far each log has been passed on; only the server's sync uses it
	told int64
}

const versionDir = "/data/version-2"

func (f *feed) Create(path string) (vfs.File, error)    { return f.wrap(f.Mem.Create(path)) }
func (f *feed) Open(path string) (vfs.File, error)      { return f.wrap(f.Mem.Open(path)) }
func (f *feed) OpenWrite(path string) (vfs.File, error) { return f.wrap(f.Mem.OpenWrite(path)) }

func (f *feed) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &feedFile{file, f}, nil
}

type feedFile struct {
	vfs.File
	f *feed
}

func (f *feedFile) Datasync() error {
	err := f.File.Datasync()
	if err == nil {
		f.f.pass()
	}
	return err
}

// pass passes on what has come into the logs.
func (f *feed) pass() {
	const logHeader, recordHeader = 16, 12 // bytes; see package store
	var news []txn.Txn
	names, _ := f.Mem.ReadDir(versionDir)
	for _, name := range names {
		if !strings.HasPrefix(name, "log.") {
			continue
		}
		file, err := f.Mem.Open(versionDir + "/" + name)
		if err != nil {
			continue
		}
		at := max(f.read[name], logHeader)
		for {
			var header [recordHeader]byte
			if n, _ := file.ReadAt(header[:], at); n < len(header) {
				break
			}
			length := int64(binary.BigEndian.Uint32(header[8:]))
			if length == 0 {
				break
			}
			record := make([]byte, length)
			file.ReadAt(record, at+recordHeader)
			t, _, err := txn.Decode(record)
			if err != nil {
				panic(err)
			}
			news = append(news, t)
			at += recordHeader + length + 1
		}
		f.read[name] = at
		file.Close()
	}
	slices.SortFunc(news, func(a, b txn.Txn) int { return cmp.Compare(a.Zxid, b.Zxid) })
	for _, t := range news {
		if t.Zxid > f.told {
			f.told = t.Zxid
			f.synced(t)
		}
	}
}
