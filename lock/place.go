package lock

import (
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A place is the claim of a grant in the line of a fair lock.
type place struct {
	*grant
	e      *entrance
	waited bool   // others may have seen the node behind another's
	marker string // path of the delay marker; empty if there is none
}

// newPlace makes the grant of one of an attempt's nodes.
func newPlace(a *attempt, node string, lease uint64, vouching *client.Vouching) *place {
	g := newGrant(&a.e.lockBase, a.id, node, a.token, a.data, a.revoked[node], lease, vouching)
	p := &place{g, a.e, a.waited, a.marker}
	g.claim = p
	return p
}

// owns returns true: no name of a node in a line is ever used again.
func (g *place) owns(zk.Stat) bool { return true }

// send adds the deletion of the node, unless a downgrade is under way.
func (g *place) send(p *client.Pipeline) *removal {
	if _, moving := g.whereabouts(); moving != nil {
		return nil
	}
	return g.delete(p, g.rings())
}

func (g *place) discard() { g.e.reaper.add(g.debris()) }

// debris returns what is to be removed of a grant that has ended. If it was lost, its delay marker stays: that is for the next
// holder to see.
func (g *place) debris() debris {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := debris{id: g.id, token: g.token, nodes: []string{g.mu.node}, unknown: g.mu.moving != nil}
	if g.mu.moving != nil {
		d.moving = g.grant
	}
	if g.marker != "" && g.mu.lost == nil {
		d.nodes = []string{g.marker, g.mu.node}
	}
	return d
}
