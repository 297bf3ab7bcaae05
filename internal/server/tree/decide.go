package tree

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// The functions here decide one operation each: they check in ZooKeeper's order, so that of several
// errors the same one is reported, and touch nothing before the last check has passed.

func (d *Draft) decide(r *Request, op *wire.MultiOp) (txn.Change, zk.Code) {
	switch {
	case creates(op.Op):
		return d.decideCreate(r, op)
	case op.Op == wire.OpDelete:
		return d.decideDelete(r, op)
	case op.Op == wire.OpSetData:
		return d.decideSet(r, op)
	case op.Op == wire.OpCheck:
		return d.decideCheck(r, op)
	}
	return txn.Change{}, zk.ErrUnimplemented
}

func creates(op wire.Op) bool {
	return op == wire.OpCreate || op == wire.OpCreate2 || op == wire.OpCreateContainer || op == wire.OpCreateTTL
}

func (d *Draft) decideCreate(r *Request, op *wire.MultiOp) (txn.Change, zk.Code) {
	if code := d.checkMode(op); code != zk.OK {
		return txn.Change{}, code
	}
	if d.isClosed(r.Session) {
		return txn.Change{}, zk.ErrSessionExpired
	}
	if !hasParent(op.Path) {
		return txn.Change{}, zk.ErrBadArguments
	}
	acl, code := d.resolveACL(r, op.ACL)
	if code != zk.OK {
		return txn.Change{}, code
	}
	parent, code := d.open(r, zk.Parent(op.Path), zk.PermCreate)
	if code != zk.OK {
		return txn.Change{}, code
	}
	counter := d.nodes[parent].cversion
	c := txn.Change{
		Type: op.Op, Path: op.Path, Data: op.Data, ACL: acl.entries,
		ParentCversion: counter + 1, // past the end it is negative, and will raise nothing
	}
	if op.Mode.Sequential() {
		c.Path = sequential(op.Path, counter)
	}
	switch op.Op {
	case wire.OpCreateTTL:
		c.TTL = op.TTL
	case wire.OpCreate, wire.OpCreate2:
		c.Ephemeral = op.Mode.Ephemeral()
	}
	switch {
	case zk.ValidatePath(c.Path) != nil, isRootQuota(c.Path):
		return txn.Change{}, zk.ErrBadArguments
	case d.at(c.Path) >= 0:
		return txn.Change{}, zk.ErrNodeExists
	case isSession(d.nodes[parent].owner):
		return txn.Change{}, zk.ErrNoChildrenForEphemerals
	case !d.mayGrow(c.Path, usage{1, int64(len(c.Data))}),
		c.Ephemeral && !d.mayOwn(r.Session, c.Path):
		return txn.Change{}, zk.ErrQuotaExceeded
	}
	d.create(parent, pending{
		attrs: born(r.Zxid, r.Time, ownerOf(&c, r.Session)), path: c.Path, acl: acl, data: c.Data,
	}, c.ParentCversion)
	return c, zk.OK
}

// resolveACL returns the list to keep for that of a request. A list that has passed the checks before passes them again: it
// stands for no identity of the caller.
func (d *Draft) resolveACL(r *Request, acl []zk.ACL) (*AccessList, zk.Code) {
	if list := d.tree.lists.find(acl); list != nil && list.checked {
		return list, zk.OK
	}
	kept, code := resolveACL(r.Who, acl, &d.expanded)
	if code != zk.OK {
		return nil, code
	}
	return d.tree.lists.parse(kept), zk.OK
}

// checkMode checks the mode and the time to live of a create. Containers have a request type of
// their own, which makes a container whatever the mode.
func (d *Draft) checkMode(op *wire.MultiOp) zk.Code {
	switch {
	case !op.Mode.Valid():
		return zk.ErrBadArguments
	case op.Mode.TTL() && !d.options.ExtendedTypes:
		return zk.ErrUnimplemented
	case op.Mode.TTL() != (op.Op == wire.OpCreateTTL):
		return zk.ErrBadArguments
	case op.Mode.TTL() && (op.TTL <= 0 || op.TTL > txn.TTLMax):
		return zk.ErrBadArguments
	}
	return zk.OK
}

// mayOwn reports whether a session may have an ephemeral at path besides those it has.
func (d *Draft) mayOwn(session int64, path string) bool {
	limit := d.options.EphemeralBytesMax
	return limit == 0 || d.tree.groups[session].bytes+d.bytes[session]+len(path)+pathOverhead <= limit
}

func (d *Draft) decideDelete(r *Request, op *wire.MultiOp) (txn.Change, zk.Code) {
	if d.isClosed(r.Session) {
		return txn.Change{}, zk.ErrSessionExpired
	}
	if !hasParent(op.Path) || permanent(op.Path) {
		return txn.Change{}, zk.ErrBadArguments
	}
	if _, code := d.open(r, zk.Parent(op.Path), zk.PermDelete); code != zk.OK {
		return txn.Change{}, code
	}
	i := d.at(op.Path)
	switch {
	case i < 0:
		return txn.Change{}, zk.ErrNoNode
	case d.options.Secure && zk.Parent(op.Path) == "/" && !r.Who.May(d.nodes[i].acl, zk.PermDelete):
		return txn.Change{}, zk.ErrNoAuth
	case !matches(op.Version, d.nodes[i].version):
		return txn.Change{}, zk.ErrBadVersion
	case d.nodes[i].children > 0:
		return txn.Change{}, zk.ErrNotEmpty
	}
	d.delete(op.Path, r.Zxid)
	return txn.Change{Type: wire.OpDelete, Path: op.Path}, zk.OK
}

func (d *Draft) decideSet(r *Request, op *wire.MultiOp) (txn.Change, zk.Code) {
	i, code := d.target(r, op.Path, zk.PermWrite)
	if code != zk.OK {
		return txn.Change{}, code
	}
	switch {
	case !d.mayGrow(op.Path, usage{0, int64(len(op.Data) - len(d.nodes[i].data))}):
		return txn.Change{}, zk.ErrQuotaExceeded
	case !matches(op.Version, d.nodes[i].version):
		return txn.Change{}, zk.ErrBadVersion
	}
	p := d.change(i)
	d.account(p, -1)
	p.version++
	p.mzxid, p.mtime, p.data, p.head = r.Zxid, r.Time, op.Data, head{}
	d.account(p, 1)
	d.noteChange(p)
	return txn.Change{Type: wire.OpSetData, Path: op.Path, Data: op.Data, Version: p.version}, zk.OK
}

func (d *Draft) decideCheck(r *Request, op *wire.MultiOp) (txn.Change, zk.Code) {
	i, code := d.target(r, op.Path, zk.PermRead)
	if code != zk.OK {
		return txn.Change{}, code
	}
	version := d.nodes[i].version
	if !matches(op.Version, version) {
		return txn.Change{}, zk.ErrBadVersion
	}
	return txn.Change{Type: wire.OpCheck, Path: op.Path, Version: version + 1}, zk.OK
}

func (d *Draft) decideSetACL(r *Request, q *wire.SetACLRequest) (txn.Change, zk.Code) {
	if d.isClosed(r.Session) {
		return txn.Change{}, zk.ErrSessionExpired
	}
	if zk.ValidatePath(q.Path) != nil {
		return txn.Change{}, zk.ErrBadArguments
	}
	acl, code := d.resolveACL(r, q.ACL)
	if code != zk.OK {
		return txn.Change{}, code
	}
	i, code := d.open(r, q.Path, zk.PermAdmin)
	if code != zk.OK {
		return txn.Change{}, code
	}
	if !matches(q.Version, d.nodes[i].aversion) {
		return txn.Change{}, zk.ErrBadVersion
	}
	p := d.change(i)
	p.aversion++
	p.acl = acl
	d.noteChange(p)
	return txn.Change{Type: wire.OpSetACL, Path: q.Path, ACL: acl.entries, Version: p.aversion}, zk.OK
}

func (d *Draft) decideReap(r *Request, path string) (txn.Change, zk.Code) {
	if !hasParent(path) || permanent(path) {
		return txn.Change{}, zk.ErrBadArguments
	}
	i := d.at(path)
	switch {
	case i < 0:
		return txn.Change{}, zk.ErrNoNode
	case d.nodes[i].children > 0:
		return txn.Change{}, zk.ErrNotEmpty
	case !d.nodes[i].reapable(0, r.Time, d.options.NeverUsed):
		return txn.Change{}, zk.ErrBadVersion
	}
	d.delete(path, r.Zxid)
	return txn.Change{Type: wire.OpDeleteContainer, Path: path}, zk.OK
}

// target is how set and check begin: the node at path, if the caller has perm on it.
func (d *Draft) target(r *Request, path string, perm zk.Perm) (int, zk.Code) {
	if d.isClosed(r.Session) {
		return 0, zk.ErrSessionExpired
	}
	if zk.ValidatePath(path) != nil {
		return 0, zk.ErrBadArguments
	}
	return d.open(r, path, perm)
}

// open returns the node at path, if the caller has perm on it.
func (d *Draft) open(r *Request, path string, perm zk.Perm) (int, zk.Code) {
	i := d.at(path)
	if i < 0 {
		return 0, zk.ErrNoNode
	}
	if !r.Who.May(d.nodes[i].acl, perm) || d.options.Secure && isGuarded(path, perm) && !r.Who.Super() {
		return 0, zk.ErrNoAuth
	}
	return i, zk.OK
}

func (d *Draft) isClosed(session int64) bool {
	_, ok := d.closed[session]
	return ok
}

// matches reports whether a node's version is the one that a request insists on.
func matches(want, version int32) bool { return want == -1 || want == version }

// hasParent is all that ZooKeeper asks of a path before it looks the parent up.
func hasParent(path string) bool {
	return strings.IndexByte(path, '/') >= 0 && strings.IndexByte(path, 0) < 0
}

// permanent reports whether the node at path can never be deleted.
func permanent(path string) bool {
	if path == "/" {
		return true
	}
	for i := range builtIn {
		if builtIn[i].path == path {
			return true
		}
	}
	return false
}

// sequential appends a parent's counter to a path, as Java's "%010d" writes it.
func sequential(path string, counter int32) string {
	const digits = 10
	b := make([]byte, len(path), len(path)+digits+1)
	copy(b, path)
	n, width := uint32(counter), digits
	if counter < 0 {
		b = append(b, '-')
		n, width = -n, digits-1
	}
	var num [digits]byte
	at := digits
	for n > 0 || at > digits-width {
		at--
		num[at] = '0' + byte(n%10)
		n /= 10
	}
	return string(append(b, num[at:]...))
}
