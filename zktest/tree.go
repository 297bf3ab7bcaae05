package zktest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A Node is a znode as the server keeps it.
type Node struct {
	Path string
	Data []byte // nil is null
	Stat zk.Stat
	ACL  []zk.ACL
	// Mode says how the znode ends: one of zk.Persistent, zk.Ephemeral, zk.Container and
	// zk.PersistentTTL. Whether it was created with a sequence number is not kept.
	Mode zk.Mode
	// Owner is the label of the link whose client owns an ephemeral znode. The session's id is
	// Stat.EphemeralOwner.
	Owner string
}

// A Tree is a part of what the server keeps: parents before their children, children by name.
type Tree []Node

// Tree returns the znode at dir and all below it; nothing if there is none. It panics if dir is not a path. What ZooKeeper keeps for
// itself in /zookeeper is left out, unless dir is there.
//
// Looking is not a request. It needs no session and no permission, changes neither zxid nor
// statistics, and shows what is durable: everything that has been acknowledged. While the server is
// down, it shows what the disk has kept.
func (s *Server) Tree(dir string) Tree {
	if err := zk.ValidatePath(dir); err != nil {
		panic("zktest: Tree: " + err.Error()) // a test that something is not there would pass for nothing
	}
	s.mu.Lock()
	disk := s.mu.disk
	s.mu.Unlock()
	t, err := readDisk(disk)
	if err != nil {
		s.failed(err)
	}
	const own = "/zookeeper"
	t = slices.DeleteFunc(t, func(n Node) bool {
		return !within(n.Path, dir) || within(n.Path, own) && !within(dir, own)
	})
	s.mu.Lock()
	for i := range t {
		t[i].Owner = s.mu.labels[t[i].Stat.EphemeralOwner]
	}
	s.mu.Unlock()
	slices.SortFunc(t, func(a, b Node) int {
		return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
	})
	return t
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// String returns a line for each znode, such as
//
//	/app/leader = "10.0.0.7" (ephemeral of worker)
//
// Of long data it shows the beginning.
func (t Tree) String() string {
	var b strings.Builder
	for _, n := range t {
		b.WriteString(n.Path)
		if len(n.Data) > 0 {
			fmt.Fprintf(&b, " = %q", n.Data[:min(len(n.Data), dataShown)])
		}
		if len(n.Data) > dataShown {
			fmt.Fprintf(&b, "… (%d bytes)", len(n.Data))
		}
		switch n.Mode {
		case zk.Persistent:
		case zk.Ephemeral:
			fmt.Fprintf(&b, " (ephemeral of %s)", n.Owner)
		default:
			fmt.Fprintf(&b, " (%v)", n.Mode)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// dataShown is how many bytes of a znode's data Tree.String shows.
const dataShown = 64
