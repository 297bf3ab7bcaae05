package lock

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
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

// stems returns the stems of those holds that have not ended.
func (l *lineage) stems() []string {
	var stems []string
	for ; l != nil && len(stems) < queue.UnderMax; l = l.outer {
		if stem := l.g.id.Stem(l.g.lock.dir); l.g.alive() && !slices.Contains(stems, stem) {
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

// waiting returns what the node of a waiter says that works under a lineage, and under claims with these stems.
func (o *Options) waiting(under *lineage, claims ...string) queue.Record {
	stems := slices.Concat(claims, under.stems())
	stems = stems[:min(len(stems), queue.UnderMax)]
	for _, node := range o.Under {
		if zk.ValidatePath(node) != nil || len(stems) == queue.UnderMax {
			continue
		}
		if stem := queue.StemOf(zk.Parent(node), zk.Base(node)); !slices.Contains(stems, stem) {
			stems = append(stems, stem)
		}
	}
	return queue.Record{Under: stems, Yields: o.Deadlock > 0 && len(stems) > 0}
}

// passing is what a node says that is not going to wait.
var passing = queue.Record{Passing: true}
