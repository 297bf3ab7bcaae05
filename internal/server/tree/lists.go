package tree

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// lists holds every access control list in use once, counted. Nodes refer to slots, which are used
// again. Snapshots refer to ids, which are not: a list that comes after a snapshot's table was
// taken has an id above all in the table.
type lists struct {
	slots  []list
	free   []int32
	byKey  map[string]int32
	recent map[string]*AccessList // parsed for requests that are not carried out yet
	lastID int64
	key    []byte // scratch

	recentBytes int // of the keys of recent
}

type list struct {
	acl  *AccessList
	key  string
	id   int64
	uses int
}

// The lists that are always there. Built-in nodes need them, and a snapshot can fall back on them.
const (
	slotOpen     = 0 // id txn.OpenACLID
	slotReadOnly = 1
)

func newLists() lists {
	l := lists{byKey: map[string]int32{}, recent: map[string]*AccessList{}}
	l.intern(zk.OpenACL())
	l.slots[slotOpen].id = txn.OpenACLID
	l.intern(zk.ReadOnlyACL())
	return l
}

func (l *lists) acl(slot int32) *AccessList { return l.slots[slot].acl }

// find returns the list that consists of these entries if it is in use or was parsed lately, else nil.
func (l *lists) find(acl []zk.ACL) *AccessList {
	l.key = wire.AppendACL(l.key[:0], acl)
	if slot, ok := l.byKey[string(l.key)]; ok {
		return l.slots[slot].acl
	}
	return l.recent[string(l.key)]
}

// parse returns a list that is known, or parses it and remembers it for intern. It has been checked. It does not keep the
// slice.
func (l *lists) parse(acl []zk.ACL) *AccessList {
	list := l.find(acl)
	if list == nil {
		if len(l.recent) >= recentMax || l.recentBytes+len(l.key) > recentBytesMax {
			clear(l.recent)
			l.recentBytes = 0
		}
		list = newAccessList(slices.Clone(acl))
		l.recent[string(l.key)] = list
		l.recentBytes += len(l.key)
	}
	list.checked = !repeats(list.entries) // as two "auth" may make it; resolveACL takes repetitions out of the list of a request
	return list
}

// How many lists are remembered that are not in use yet, or not any more, and how many bytes they take in a request. The
// last one may be longer.
const (
	recentMax      = 16
	recentBytesMax = 1 << 20
)

// intern returns the slot of acl, used once more. It does not keep the slice.
func (l *lists) intern(acl []zk.ACL) int32 {
	l.key = wire.AppendACL(l.key[:0], acl)
	if slot, ok := l.byKey[string(l.key)]; ok {
		l.slots[slot].uses++
		return slot
	}
	var slot int32
	if n := len(l.free); n > 0 {
		slot = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		slot = int32(len(l.slots))
		l.slots = append(l.slots, list{})
	}
	l.lastID++
	key := string(l.key)
	parsed := l.recent[key]
	if parsed == nil {
		parsed = newAccessList(slices.Clone(acl))
	}
	l.slots[slot] = list{acl: parsed, key: key, id: l.lastID, uses: 1}
	l.byKey[key] = slot
	return slot
}

func (l *lists) use(slot int32) { l.slots[slot].uses++ }

func (l *lists) release(slot int32) {
	s := &l.slots[slot]
	s.uses--
	if s.uses == 0 {
		delete(l.byKey, s.key)
		*s = list{}
		l.free = append(l.free, slot)
	}
}

// entries returns the lists in use but for the open one, which needs no entry.
func (l *lists) entries() []txn.ACLEntry {
	var out []txn.ACLEntry
	for slot := slotReadOnly; slot < len(l.slots); slot++ {
		if s := &l.slots[slot]; s.uses > 0 {
			out = append(out, txn.ACLEntry{ID: s.id, ACL: s.acl.entries})
		}
	}
	return out
}
