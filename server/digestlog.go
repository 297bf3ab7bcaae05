package server

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
)

// Every so many transactions, and that many times, a digestLog notes the sum over the tree, as
// ZooKeeper does: servers that have carried out the same transactions show the same lines.
const (
	digestInterval = 128
	digestsMax     = 1024
)

// A TreeDigest is the sum over the tree after one transaction.
type TreeDigest struct {
	Zxid    int64
	Version int32 // of how the sum is made
	Tree    uint64
}

// A digestLog is a ring of the newest digests; Server.state guards it.
type digestLog struct {
	ring []TreeDigest
	next int // where the next one goes once the ring is full
}

// note looks at the tree after a transaction.
func (l *digestLog) note(t *tree.Tree) {
	if t.LastZxid()%digestInterval != 0 {
		return
	}
	sum, ok := t.Digest()
	if !ok {
		return
	}
	l.add(TreeDigest{t.LastZxid(), sum.Version, sum.Tree})
}

func (l *digestLog) add(d TreeDigest) {
	if len(l.ring) < digestsMax {
		l.ring = append(l.ring, d)
		return
	}
	l.ring[l.next] = d
	l.next = (l.next + 1) % digestsMax
}

// Digests returns the sums over the tree after every 128th transaction since the server was opened,
// the newest 1024 of them in their order, or none if the server keeps no digests.
func (s *Server) Digests() []TreeDigest {
	s.state.RLock()
	defer s.state.RUnlock()
	return slices.Concat(s.digests.ring[s.digests.next:], s.digests.ring[:s.digests.next])
}
