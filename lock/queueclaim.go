package lock

import (
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A queueClaim is the claim of a grant in the queue of a fair lock.
type queueClaim struct {
	*grant
	core        *core
	waited      bool   // others may have seen the node behind another's
	delayMarker string // path of the delay marker; empty if there is none

	downgrading sync.Mutex // held by a downgrade
	unknown     bool       // the last downgrade did not learn its outcome; guarded by downgrading
}

// newQueueClaim makes the grant of one of an attempt's nodes.
func newQueueClaim(a *attempt, node string, lease uint64, vouching bridge.Vouching) *queueClaim {
	g := newGrant(&a.core.lockBase, a.id, node, a.token, a.data, a.revoked[node], lease, vouching)
	c := &queueClaim{grant: g, core: a.core, waited: a.waited, delayMarker: a.delayMarker}
	g.claim = c
	return c
}

// owns returns true: no name of a node in a queue is ever used again.
func (c *queueClaim) owns(zk.Stat) bool { return true }

// send adds the deletion of the node.
func (c *queueClaim) send(p *client.Pipeline) *removal { return c.delete(p, c.announces()) }

func (c *queueClaim) discard() { c.core.cleaner.add(c.leftovers()) }

// leftovers returns what is to be removed of a grant that has ended. If it was lost, its delay marker stays: that is for the next
// holder to see.
func (c *queueClaim) leftovers() leftovers {
	d := leftovers{id: c.id, token: c.token, nodes: c.nodes()}
	if c.delayMarker != "" && c.loss() == nil {
		d.nodes = slices.Insert(d.nodes, 0, c.delayMarker)
	}
	return d
}

// nodes returns the path of the node. While the outcome of a downgrade is open there are two, that of the write node first: if
// they are deleted in this order, neither is left, even if the downgrade is carried out in between or later.
func (c *queueClaim) nodes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.next != "" {
		return []string{c.mu.node, c.mu.next}
	}
	return []string{c.mu.node}
}
