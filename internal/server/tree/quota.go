package tree

import (
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A quota limits how many znodes a subtree has, its top included, and how many bytes of data. It
// exists as long as its limits do, in quotaRoot + path + "/" + limitName; the usage stands beside
// them in statName. Both are made by clients. The usage is kept in its znode as the subtree changes,
// without a transaction and without a trace in the znode's Stat, and counted anew when the znode is
// created and after a recovery. Of several quotas above a znode only the nearest notes its changes,
// though counting anew takes all in: quotas must not be nested, here as in ZooKeeper, whose tools
// refuse it.
const (
	quotaRoot = "/zookeeper/quota"
	limitName = "zookeeper_limits"
	statName  = "zookeeper_stats"
)

// quotaSubtree returns the subtree that the limits or the usage below parent are about. There is
// none for the root, which ZooKeeper keeps no account of.
func quotaSubtree(parent string) (path string, ok bool) {
	path, ok = strings.CutPrefix(parent, quotaRoot)
	return path, ok && path != ""
}

// isRootQuota reports whether a path is that of limits or of a usage of the root. They are refused: Apache ZooKeeper 3.8 takes
// the transaction, and ends when it applies it, at each start again ("Invalid path" in PathTrie.addPath).
func isRootQuota(path string) bool {
	return path == quotaRoot+"/"+limitName || path == quotaRoot+"/"+statName
}

// A usage is what a subtree has, or how it changes.
type usage struct{ count, bytes int64 }

// A limits is what a subtree may have; −1 is no limit.
type limits struct {
	usage       // soft: an excess is only logged
	hard  usage // binding, if the server enforces quotas
}

// parseLimits reads the text of limits or usage: key=number, separated by commas and semicolons. What
// cannot be read counts as missing, and what is missing is −1.
func parseLimits(text string) limits {
	l := limits{usage{-1, -1}, usage{-1, -1}}
	for start := 0; start < len(text); {
		end := start
		for end < len(text) && text[end] != ',' && text[end] != ';' {
			end++
		}
		key, value, _ := strings.Cut(text[start:end], "=")
		value = strings.TrimSuffix(value, "=") // "bytes=5=" stands in front of hard limits
		start = end + 1
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "count":
			l.count = n
		case "bytes":
			l.bytes = n
		case "countHardLimit":
			l.hard.count = n
		case "byteHardLimit":
			l.hard.bytes = n
		}
	}
	return l
}

// appendTo appends the text of a usage.
func (u usage) appendTo(b []byte) []byte {
	b = strconv.AppendInt(append(b, "count="...), u.count, 10)
	return strconv.AppendInt(append(b, ",bytes="...), u.bytes, 10)
}

// quotaOver returns the top of the nearest subtree around path that has limits; ok is false if there
// is none.
func (t *Tree) quotaOver(path string) (top string, ok bool) {
	if len(t.quotas) == 0 {
		return "", false
	}
	for top = path; top != "/" && top != ""; top = zk.Parent(top) {
		if _, ok := t.quotas[top]; ok {
			return top, true
		}
	}
	return "", false
}

// noteUsage adds to the usage that counts a change of the znode at path.
func (t *Tree) noteUsage(path string, change usage) {
	top, ok := t.quotaOver(path)
	if !ok {
		return
	}
	if r := t.find(quotaRoot + top + "/" + statName); r != 0 {
		u := parseLimits(t.nodes.at(r).text()).usage
		t.setUsage(r, usage{u.count + change.count, u.bytes + change.bytes})
	}
}

// setUsage writes a usage into its znode, and touches nothing else of it.
func (t *Tree) setUsage(r ref, u usage) {
	n := t.nodes.at(r)
	data := u.appendTo(nil)
	t.bytes += int64(len(data) - n.dataLen())
	n.blob = pack(n.name(), data)
}

// quotaCreated does what the creation of limits or of a usage calls for.
func (t *Tree) quotaCreated(r ref, parent, name string) {
	if name != limitName && name != statName {
		return
	}
	top, ok := quotaSubtree(parent)
	switch {
	case !ok:
	case name == statName:
		t.setUsage(r, t.measure(t.find(top)))
	default:
		t.addQuota(top)
	}
}

func (t *Tree) addQuota(top string) {
	if t.quotas == nil {
		t.quotas = map[string]struct{}{}
	}
	t.quotas[strings.Clone(top)] = struct{}{} // which may lie in a request
}

// quotaDeleted forgets a quota whose limits are gone.
func (t *Tree) quotaDeleted(parent, name string) {
	if name != limitName {
		return
	}
	if top, ok := quotaSubtree(parent); ok {
		delete(t.quotas, top)
	}
}

// measure counts the subtree at top, which may be 0: no znodes.
func (t *Tree) measure(top ref) (u usage) {
	for r := range t.below(top) {
		u.count++
		u.bytes += int64(t.nodes.at(r).dataLen())
	}
	return u
}

// findQuotas finds the quotas of a tree that was restored.
func (t *Tree) findQuotas() {
	for r := range t.below(t.find(quotaRoot)) {
		if n := t.nodes.at(r); n.name() == limitName {
			if top, ok := quotaSubtree(t.path(n.parent)); ok {
				t.addQuota(top)
			}
		}
	}
}

// Recount counts the usage of all quotas anew. It belongs at the end of a recovery: the usage in a
// snapshot is as old as the snapshot, or younger than what stands around it.
func (t *Tree) Recount() {
	for top := range t.quotas {
		if r := t.find(quotaRoot + top + "/" + statName); r != 0 {
			t.setUsage(r, t.measure(t.find(top)))
		}
	}
}
