package tree

// An Excess is a limit that a request went beyond, or would have.
type Excess struct {
	Path    string // the top of the subtree that has the quota
	Bytes   bool   // the limit is one of bytes, not of znodes
	Hard    bool   // the limit binds if quotas are enforced
	Limit   int64
	Reached int64 // with the request
}

// Excess returns the last limit that a decision since the last Reset went beyond; ok is false if
// there was none.
func (d *Draft) Excess() (e Excess, ok bool) { return d.excess, d.excess.Path != "" }

// mayGrow reports whether the nearest quota around path allows a change, or is not enforced. What
// was decided before counts as if it were applied; limits count from when they are.
func (d *Draft) mayGrow(path string, change usage) bool {
	top, ok := d.tree.quotaOver(path)
	if !ok {
		return true
	}
	at, used := d.tree.find(quotaRoot+top+"/"+limitName), d.tree.find(quotaRoot+top+"/"+statName)
	if at == 0 || used == 0 {
		return true
	}
	limit := parseLimits(d.tree.nodes.At(at).text())
	now, pending := parseLimits(d.tree.nodes.At(used).text()).usage, d.usages[top]
	return d.within(Excess{Path: top, Reached: now.count + pending.count + change.count}, change.count, limit.count, limit.hard.count) &&
		d.within(Excess{Path: top, Bytes: true, Reached: now.bytes + pending.bytes + change.bytes}, change.bytes, limit.bytes, limit.hard.bytes)
}

// within checks one number. A hard limit stands in place of the soft one, and only what leaves the
// number as it is passes with any limit: as in ZooKeeper, a subtree that is beyond its limit
// already cannot be brought back by less data, but by deleting.
func (d *Draft) within(e Excess, change, soft, hard int64) bool {
	e.Limit, e.Hard = soft, hard >= 0
	if e.Hard {
		e.Limit = hard
	}
	if change == 0 || e.Limit < 0 || e.Reached <= e.Limit {
		return true
	}
	d.excess = e
	return !e.Hard || !d.options.EnforceQuota
}
