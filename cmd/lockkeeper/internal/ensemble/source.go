package ensemble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/load"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A Source is the data directory of a single server, ours or Apache ZooKeeper's.
type Source struct {
	Dir    string // its version-2 holds the snapshots
	LogDir string // its version-2 holds the logs; empty: Dir
	NoLogs bool   // a directory without logs has lost none
}

// Content is what a server finds in a data directory.
type Content struct {
	Zxid       int64  `json:"zxid"` // of the last transaction
	Znodes     int    `json:"znodes"`
	Ephemerals int    `json:"ephemerals"`
	Passing    int    `json:"passing"` // containers and znodes with a time to live, which servers delete by themselves
	Timed      int    `json:"timed"`   // those with a time to live
	Sessions   int    `json:"sessions"`
	Digest     uint64 `json:"digest"` // of the whole tree

	// Cut is how many bytes the newest log has behind its last whole transaction. Copies are without them.
	Cut int64 `json:"cut_bytes"`

	// Newest is the lasting znode that was written last, in transaction NewestZxid.
	Newest     string `json:"newest"`
	NewestZxid int64  `json:"newest_zxid"`
}

func (c Content) String() string {
	return fmt.Sprintf("zxid 0x%x, %d znodes (%d of them ephemeral), %d sessions", c.Zxid, c.Znodes, c.Ephemerals, c.Sessions)
}

func (s Source) options() store.Options { return store.Options{DataDir: s.Dir, LogDir: s.LogDir} }

// logs returns the directory with the logs.
func (s Source) logs() string {
	if s.LogDir == "" {
		return filepath.Join(s.Dir, versionName)
	}
	return filepath.Join(s.LogDir, versionName)
}

// folders returns the directories that hold files of a server.
func (s Source) folders() []string {
	return slices.Compact([]string{filepath.Join(s.Dir, versionName), s.logs()})
}

const (
	// endTimeout is how long a server may take to end that has been told to, and lockInterval how often that is looked at.
	endTimeout   = time.Second
	lockInterval = 20 * time.Millisecond
)

// lockDir takes a directory, after the server that ends there.
func lockDir(dir string) (io.Closer, error) {
	for deadline := time.Now().Add(endTimeout); ; time.Sleep(lockInterval) {
		l, err := vfs.OS{}.LockDir(dir)
		if !errors.Is(err, vfs.ErrLocked) || time.Now().After(deadline) {
			return l, err
		}
	}
}

// lock takes the directories as a server of ours does, so that none is at work there and none begins.
func (s Source) lock() (unlock func(), err error) {
	var locks []io.Closer
	unlock = func() {
		for _, l := range locks {
			l.Close()
		}
	}
	for _, dir := range s.folders() {
		l, err := lockDir(dir)
		if errors.Is(err, vfs.ErrLocked) {
			unlock()
			return nil, fmt.Errorf("%s: a server is at work there (stop it first)", s.Dir)
		}
		if err != nil {
			unlock()
			return nil, err
		}
		locks = append(locks, l)
	}
	return unlock, nil
}

// parts returns the files that members need. It refuses a directory that may lack some.
func (s Source) parts() ([]store.Part, error) {
	for _, dir := range s.folders() {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && filepath.Base(s.Dir) == versionName:
			return nil, fmt.Errorf("%s: name the directory above it, which zoo.cfg calls dataDir", s.Dir)
		case err != nil:
			return nil, fmt.Errorf("%s: no data directory of a server that can be read: %w", filepath.Dir(dir), err)
		case !info.IsDir():
			return nil, fmt.Errorf("%s is no directory", dir)
		}
	}
	parts, err := store.Parts(vfs.OS{}, s.options())
	if err != nil {
		return nil, fmt.Errorf("%w (lockkeeper server check %s shows all files)", err, shellPath(s.Dir))
	}
	if len(parts) == 1 && !s.NoLogs { // also behind the snapshot.0 that Apache ZooKeeper begins with may be many
		return nil, fmt.Errorf("%s: there is a snapshot and no log, so the newest transactions may be missing (name the directory of the logs, dataLogDir, with --log-dir; if there never were logs, as in a backup, say --no-logs)", s.Dir)
	}
	return parts, nil
}

// member reports whether the source has been a member of an ensemble.
func (s Source) member() bool {
	_, err := os.Stat(filepath.Join(s.Dir, versionName, "currentEpoch"))
	return err == nil
}

// ours reports whether the source is a directory of our own server.
func (s Source) ours() bool {
	_, err := os.Stat(filepath.Join(s.Dir, "lockkeeper.secret"))
	return err == nil
}

// read returns what a server finds in the directory. It ends with ctx before it begins, and takes as long as a server's start.
func (s Source) read(ctx context.Context) (Content, error) {
	if ctx.Err() != nil {
		return Content{}, context.Cause(ctx)
	}
	l := load.New(true)
	found, err := store.Read(vfs.OS{}, s.options(), l)
	if err != nil {
		return Content{}, err
	}
	l.Finish()
	digest, _ := l.Tree.Digest()
	c := Content{Zxid: found.Zxid, Znodes: l.Tree.Count(), Ephemerals: l.Tree.EphemeralCount(), Sessions: len(l.Sessions), Digest: digest.Tree, Cut: found.CutBytes, Newest: "/"}
	const stretch = 1024
	walk := l.Tree.Snapshot()
	for nodes := walk.Next(nil, stretch); len(nodes) > 0; nodes = walk.Next(nodes[:0], stretch) {
		for _, n := range nodes {
			switch {
			case n.Owner == 0:
				own := n.Path == "/zookeeper" || strings.HasPrefix(n.Path, "/zookeeper/") // servers write there by themselves
				if n.Mzxid > c.NewestZxid && !own {
					c.Newest, c.NewestZxid = n.Path, n.Mzxid
				}
			case txn.OwnerSession(n.Owner) == 0:
				c.Passing++
				if n.Owner != txn.OwnerContainer {
					c.Timed++
				}
			}
		}
	}
	return c, nil
}
