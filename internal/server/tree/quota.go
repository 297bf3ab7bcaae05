package tree

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A quota limits how many znodes a subtree has, its top included, and how many bytes of data. It
// exists as long as its limits do, in quotaRoot + path + "/" + limitName; the usage stands beside
// them in statName. Both are made by clients. The usage is kept in its znode as the subtree changes,
// without a transaction and without a trace in the znode's Stat, and counted anew at the end of the transaction
// that creates the znode and after a recovery. Of several quotas above a znode only the nearest notes its changes,
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

// quotaTextMax is the size of the longest text of limits or usage that is read: it is read for each change of the subtree.
// All four numbers take a hundred bytes.
const quotaTextMax = 256

// parseLimits reads the text of limits or usage: key=number, separated by commas and semicolons. What
// cannot be read counts as missing, and what is missing is −1. (Apache ZooKeeper throws an exception at a text that it
// cannot read, with each change of the subtree.)
func parseLimits(text string) limits {
	l := limits{usage{-1, -1}, usage{-1, -1}}
	if len(text) > quotaTextMax {
		return l
	}
	for start := 0; start < len(text); {
		end := start
		for end < len(text) && text[end] != ',' && text[end] != ';' {
			end++
		}
		key, value, _ := strings.Cut(text[start:end], "=")
		value = strings.TrimSuffix(value, "=") // "bytes=5=" stands in front of hard limits
		start = end + 1
		var number *int64
		switch key {
		case "count":
			number = &l.count
		case "bytes":
			number = &l.bytes
		case "countHardLimit":
			number = &l.hard.count
		case "byteHardLimit":
			number = &l.hard.bytes
		default:
			continue
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			*number = n
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
// is none. It goes down the znodes of the quotas and looks at each part of the path once: a path may have thousands.
func (t *Tree) quotaOver(path string) (top string, ok bool) {
	if len(t.quotas) == 0 {
		return "", false
	}
	at := t.find(quotaRoot)
	for start := 1; start < len(path); {
		end := start
		for end < len(path) && path[end] != '/' {
			end++
		}
		at = t.child(at, path[start:end])
		if at == 0 {
			break
		}
		if t.child(at, limitName) != 0 {
			top, ok = path[:end], true
		}
		start = end + 1
	}
	return top, ok
}

// noteUsage adds to the usage that counts a change of the znode at path.
func (t *Tree) noteUsage(path string, change usage) {
	top, ok := t.quotaOver(path)
	if !ok {
		return
	}
	if r := t.find(quotaRoot + top + "/" + statName); r != 0 {
		u := parseLimits(t.nodes.At(r).text()).usage
		t.setUsage(r, usage{u.count + change.count, u.bytes + change.bytes})
	}
}

// setUsage writes a usage into its znode, and touches nothing else of it.
func (t *Tree) setUsage(r ref, u usage) {
	n := t.nodes.At(r)
	data := u.appendTo(nil)
	t.bytes += int64(len(data) - n.dataLen())
	n.blob = pack(n.name(), data)
}

// quotaCreated does what the creation of limits or of a usage calls for.
func (t *Tree) quotaCreated(parent, name string) {
	if name != limitName && name != statName {
		return
	}
	top, ok := quotaSubtree(parent)
	switch {
	case !ok:
	case name == statName:
		addTop(&t.uncounted, top)
	default:
		addTop(&t.quotas, top)
	}
}

func addTop(tops *map[string]struct{}, top string) {
	if *tops == nil {
		*tops = map[string]struct{}{}
	}
	(*tops)[strings.Clone(top)] = struct{}{} // which may lie in a request
}

// quotaDeleted forgets a quota whose limits are gone, or a usage that is.
func (t *Tree) quotaDeleted(parent, name string) {
	if name != limitName && name != statName {
		return
	}
	top, ok := quotaSubtree(parent)
	switch {
	case !ok:
	case name == statName:
		delete(t.uncounted, top)
	default:
		delete(t.quotas, top)
	}
}

// usageSet notes that the data of the znode at path has been set: if it is a usage, it stays as it is.
func (t *Tree) usageSet(path string) {
	if len(t.uncounted) > 0 && zk.Base(path) == statName {
		t.quotaDeleted(zk.Parent(path), statName)
	}
}

// CountsUsage reports whether the znodes of a subtree are counted if a znode is created at path.
func CountsUsage(path string) bool {
	parent, ok := strings.CutSuffix(path, "/"+statName)
	if !ok {
		return false
	}
	_, ok = quotaSubtree(parent)
	return ok
}

// countNew counts the usages that a transaction has created, each once. A recovery leaves them to Recount: a log may have
// a great many transactions that create and delete the same usage.
func (t *Tree) countNew() {
	if len(t.uncounted) == 0 || t.recovering {
		return
	}
	t.countUsages(t.uncounted)
	t.uncounted = nil
}

// countUsages counts the usages of the subtrees at tops. No znode is looked at twice, also where subtrees are nested.
func (t *Tree) countUsages(tops map[string]struct{}) {
	counts := make(map[ref]usage, len(tops))
	for top := range tops {
		counts[t.find(top)] = usage{}
	}
	sorted := slices.Sorted(maps.Keys(tops)) // a subtree before those that are in it
	for _, top := range sorted {
		if r := t.find(top); r != 0 && counts[r].count == 0 {
			t.measure(r, counts)
		}
	}
	for _, top := range sorted {
		if r := t.find(quotaRoot + top + "/" + statName); r != 0 {
			t.setUsage(r, counts[t.find(top)])
		}
	}
}

// measure counts the subtree at top, and those in it whose tops are in counts, too; top is.
func (t *Tree) measure(top ref, counts map[ref]usage) {
	var tops []ref // around r, the outermost first
	var sums []usage
	for r := top; ; {
		n := t.nodes.At(r)
		if _, ok := counts[r]; ok {
			tops, sums = append(tops, r), append(sums, usage{})
		}
		sum := &sums[len(sums)-1]
		sum.count++
		sum.bytes += int64(n.dataLen())
		if kid := t.firstChild(n); kid != 0 {
			r = kid
			continue
		}
		for {
			if last := len(tops) - 1; tops[last] == r {
				u := sums[last]
				counts[r] = u
				if last == 0 {
					return
				}
				tops, sums = tops[:last], sums[:last]
				sums[last-1].count += u.count
				sums[last-1].bytes += u.bytes
			}
			n := t.nodes.At(r)
			if n.next != 0 {
				r = n.next
				break
			}
			r = n.parent
		}
	}
}

// findQuotas finds the quotas of a tree that was restored.
func (t *Tree) findQuotas() {
	for r := range t.below(t.find(quotaRoot)) {
		if n := t.nodes.At(r); n.name() == limitName {
			if top, ok := quotaSubtree(t.path(n.parent)); ok {
				addTop(&t.quotas, top)
			}
		}
	}
}

// Recount counts the usage of all quotas anew. It belongs at the end of a recovery, which it ends: the usage in a
// snapshot is as old as the snapshot, or younger than what stands around it.
func (t *Tree) Recount() {
	tops := maps.Clone(t.uncounted)
	if tops == nil {
		tops = map[string]struct{}{}
	}
	maps.Copy(tops, t.quotas)
	t.countUsages(tops)
	t.uncounted, t.recovering = nil, false
}
