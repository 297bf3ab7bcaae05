package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/watch"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// Sessions returns when each session is going to expire, counted from the opening of the server,
// unless its client is heard of before. Those that are being closed are left out.
func (s *Server) Sessions() map[int64]time.Duration {
	s.sessions.Lock()
	defer s.sessions.Unlock()
	expiry := make(map[int64]time.Duration)
	for id := range s.sessions.table.All() {
		if at, ok := s.sessions.table.Expiry(id); ok {
			expiry[id] = at
		}
	}
	return expiry
}

// Ephemerals returns the paths of each session's ephemeral znodes, oldest first.
func (s *Server) Ephemerals() map[int64][]string {
	s.listing.Lock()
	defer s.listing.Unlock()
	s.state.RLock()
	defer s.state.RUnlock()
	paths := make(map[int64][]string)
	for _, id := range s.tree.EphemeralSessions() {
		paths[id] = s.tree.Ephemerals(id, "")
	}
	return paths
}

// What follows about watches leaves out those on children, as ZooKeeper's words do.

// WatchSummary returns how many connections watch how many paths, and with how many watches.
func (s *Server) WatchSummary() (connections, paths, watches int) {
	s.listing.Lock()
	defer s.listing.Unlock()
	s.state.RLock()
	defer s.state.RUnlock()
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	return s.watches.Summary()
}

// WatchesByPath returns the sessions that watch each path, in ascending order.
func (s *Server) WatchesByPath() map[string][]int64 {
	s.listing.Lock()
	defer s.listing.Unlock()
	s.state.RLock()
	defer s.state.RUnlock()
	s.watchMu.Lock()
	byPath := s.watches.ByPath()
	s.watchMu.Unlock()
	sessions := make(map[string][]int64, len(byPath))
	for path, watchers := range byPath {
		for _, w := range watchers {
			if id, ok := s.sessionOf(w); ok {
				sessions[path] = append(sessions[path], id)
			}
		}
		slices.Sort(sessions[path])
	}
	return sessions
}

// WatchesBySession returns the paths that each session watches, sorted.
func (s *Server) WatchesBySession() map[int64][]string {
	s.listing.Lock()
	defer s.listing.Unlock()
	s.state.RLock()
	defer s.state.RUnlock()
	s.watchMu.Lock()
	byWatcher := s.watches.ByWatcher()
	s.watchMu.Unlock()
	paths := make(map[int64][]string, len(byWatcher))
	for w, list := range byWatcher {
		if id, ok := s.sessionOf(w); ok {
			slices.Sort(list)
			paths[id] = list
		}
	}
	return paths
}

// sessionOf returns the session of a watcher, unless that has gone; Server.state is locked.
func (s *Server) sessionOf(w watch.Watcher) (int64, bool) {
	c := s.connection(uint64(w))
	if c == nil {
		return 0, false
	}
	return c.session, true
}

// Options returns the settings that the server runs with, defaults filled in.
func (s *Server) Options() Options { return s.opts }

// DataFolder and LogFolder are where the snapshots and the transaction logs are, given options with
// their defaults filled in.
func (o *Options) DataFolder() string { return filepath.Join(o.DataDir, "version-2") }
func (o *Options) LogFolder() string  { return filepath.Join(o.LogDir, "version-2") }

// DirBytes returns the sizes of all files in the folders of the snapshots and of the logs. They are
// the same if the folder is.
func (s *Server) DirBytes() (data, log int64) {
	data = dirBytes(s.opts.fs, s.opts.DataFolder())
	if s.opts.LogDir == s.opts.DataDir {
		return data, data
	}
	return data, dirBytes(s.opts.fs, s.opts.LogFolder())
}

// dirBytes adds up the sizes of the files in a folder. What cannot be opened has just been deleted
// or the reader that needs it is about to find it: it counts for nothing.
func dirBytes(disk vfs.FS, dir string) (total int64) {
	names, _ := disk.ReadDir(dir)
	for _, name := range names {
		f, err := disk.Open(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if n, err := f.Size(); err == nil {
			total += n
		}
		f.Close()
	}
	return total
}

// LastSnapshot returns the last transaction that the newest snapshot holds for sure, and when it
// was written; the time is zero if the file does not say.
func (s *Server) LastSnapshot() (zxid int64, written time.Time) {
	if last := s.lastSnapshot.Load(); last != nil {
		return last.zxid, last.written
	}
	found := s.store.Recovery()
	var info fs.FileInfo
	info, _ = os.Stat(found.Snapshot)
	if info != nil {
		written = info.ModTime()
	}
	return found.SnapshotZxid, written
}

// A savedSnapshot is one that this server has written.
type savedSnapshot struct {
	zxid    int64
	written time.Time
}
