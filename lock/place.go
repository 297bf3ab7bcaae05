package lock

import (
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A place is the claim of a grant in the line of a fair lock.
type place struct {
	*grant
	core   *core
	waited bool   // others may have seen the node behind another's
	marker string // path of the delay marker; empty if there is none

	downgrading sync.Mutex // held by a downgrade
	unknown     bool       // the last downgrade did not learn its outcome; guarded by downgrading
}

// newPlace makes the grant of one of an attempt's nodes.
func newPlace(a *attempt, node string, lease uint64, vouching *client.Vouching) *place {
	g := newGrant(&a.core.lockBase, a.id, node, a.token, a.data, a.revoked[node], lease, vouching)
	p := &place{grant: g, core: a.core, waited: a.waited, marker: a.marker}
	g.claim = p
	return p
}

// owns returns true: no name of a node in a line is ever used again.
func (g *place) owns(zk.Stat) bool { return true }

// send adds the deletion of the node.
func (g *place) send(p *client.Pipeline) *removal { return g.delete(p, g.announces()) }

func (g *place) discard() { g.core.cleaner.add(g.leftovers()) }

// leftovers returns what is to be removed of a grant that has ended. If it was lost, its delay marker stays: that is for the next
// holder to see.
func (g *place) leftovers() leftovers {
	d := leftovers{id: g.id, token: g.token, nodes: g.nodes()}
	if g.marker != "" && !g.wasLost() {
		d.nodes = slices.Insert(d.nodes, 0, g.marker)
	}
	return d
}

// nodes returns the path of the node. While the outcome of a downgrade is open there are two, that of the write node first: if
// they are deleted in this order, neither is left, even if the downgrade is carried out in between or later.
func (g *place) nodes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.next != "" {
		return []string{g.mu.node, g.mu.next}
	}
	return []string{g.mu.node}
}
