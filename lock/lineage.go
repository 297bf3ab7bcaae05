package lock

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A lineage is the chain of holds that somebody works under, newest first. It travels in the contexts of holds, and
// the node of whoever waits names it (record.Under), so that circles of waits can be found.
type lineage struct {
	g     *grant
	outer *lineage
}

// lineageKey is the key under which a context carries its lineage.
type lineageKey struct{}

func lineageOf(ctx context.Context) *lineage {
	l, _ := ctx.Value(lineageKey{}).(*lineage)
	return l
}

// underMax is how many holds the node of a waiter names at most, the newest first.
const underMax = 32

// stems returns the stems of those holds that have not ended.
func (l *lineage) stems() []string {
	var stems []string
	for ; l != nil && len(stems) < underMax; l = l.outer {
		if stem := l.g.id.stem(l.g.lock.dir); l.g.alive() && !slices.Contains(stems, stem) {
			stems = append(stems, stem)
		}
	}
	return stems
}

// alive reports whether the grant has not ended.
func (g *grant) alive() bool {
	select {
	case <-g.ended:
		return false
	default:
		return true
	}
}

// stem returns the path that all nodes of an attempt in a directory begin with, and no others do. It names a hold for as
// long as that lasts: a downgrade changes the node, and not the stem.
func (id attemptID) stem(dir string) string { return zk.Join(dir, protectedPrefix+string(id)) }

// stemOf returns the stem of a claim's node, and for those of other clients its path.
func stemOf(dir, name string) string {
	if bell, ok := bellOf(name); ok {
		name = strings.TrimSuffix(bell, bellWord)
	}
	return zk.Join(dir, name)
}

// waiting returns what the node of a waiter says that works under a lineage, and under claims with these stems.
func (o *Options) waiting(under *lineage, claims ...string) record {
	stems := slices.Concat(claims, under.stems())
	stems = stems[:min(len(stems), underMax)]
	for _, node := range o.Under {
		if zk.ValidatePath(node) != nil || len(stems) == underMax {
			continue
		}
		if stem := stemOf(zk.Parent(node), zk.Base(node)); !slices.Contains(stems, stem) {
			stems = append(stems, stem)
		}
	}
	return record{Under: stems, Yields: o.Deadlock > 0 && len(stems) > 0}
}

// passing is what a node says that is not going to wait.
var passing = record{Passing: true}

// under returns the stems that the data of a claim's node names; what other clients write names none.
func (r record) under() []string {
	stems := r.Under[:min(len(r.Under), underMax)]
	return slices.DeleteFunc(slices.Clone(stems), func(stem string) bool {
		return zk.ValidatePath(stem) != nil || zk.Parent(stem) == "/"
	})
}

// parseRecord reads the data of a claim's node; what other clients write says nothing.
func parseRecord(data []byte) record {
	var r record
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &r) != nil {
		return record{}
	}
	return r
}
