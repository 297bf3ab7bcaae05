package client

import (
	"bytes"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Created is what a create made.
type Created struct {
	Path string // with the counter, if the mode was sequential
	Stat zk.Stat
}

// A Node is the data and the stat of a znode.
type Node struct {
	Data []byte // nil if the data is null
	Stat zk.Stat
}

// A Listing is the children of a znode. All names share one piece of memory: to keep a few of many for long, clone them
// (strings.Clone).
type Listing struct {
	Names []string // without their parent's path, in no particular order
	Stat  zk.Stat  // of the parent
}

// Create adds a request to create a znode. A nil acl lets every client do anything. Modes with a time to
// live go through CreateTTL.
func (p *Pipeline) Create(path string, data []byte, mode zk.Mode, acl []zk.ACL) *Pending[Created] {
	op := wire.OpCreate2
	if mode == zk.Container {
		op = wire.OpCreateContainer
	}
	req := wire.CreateRequest{Path: p.s.serverPathOfNew(path, mode), Data: data, ACL: orOpen(acl), Mode: mode}
	k := addCreate(p, op, path, mode, &req)
	if mode.TTL() {
		k.refuse = fmt.Errorf("%w: mode %v is for CreateTTL", zk.ErrBadArguments, mode)
	}
	return k
}

// CreateTTL adds a request to create a znode that the server deletes once it has had no children and
// no change for ttl. Servers refuse it unless extended types are enabled.
func (p *Pipeline) CreateTTL(path string, data []byte, mode zk.Mode, acl []zk.ACL, ttl time.Duration) *Pending[Created] {
	req := wire.CreateTTLRequest{
		CreateRequest: wire.CreateRequest{Path: p.s.serverPathOfNew(path, mode), Data: data, ACL: orOpen(acl), Mode: mode},
		TTL:           ttl.Milliseconds(),
	}
	return addCreate(p, wire.OpCreateTTL, path, mode, &req)
}

func addCreate(p *Pipeline, op wire.Op, path string, mode zk.Mode, req wire.Record) *Pending[Created] {
	k := add(p, "create", op, path, req, readCreated)
	k.check(path, mode)
	return k
}

// openACL is written to the wire and not handed out.
var openACL = zk.OpenACL()

func orOpen(acl []zk.ACL) []zk.ACL {
	if acl == nil {
		return openACL
	}
	return acl
}

func readCreated(s *Session, d *wire.Decoder, v *Created) error {
	var r wire.CreateResponse
	r.DecodeFrom(d)
	*v = Created{Path: s.clientPath(r.Path), Stat: r.Stat}
	return nil
}

// Delete adds a request to delete a znode, if its data has that version; zk.AnyVersion is any.
func (p *Pipeline) Delete(path string, version int32) *Pending[struct{}] {
	return add[struct{}](p, "delete", wire.OpDelete, path, &wire.VersionRequest{Path: p.s.serverPath(path), Version: version}, nil)
}

// Exists adds a request for the stat of a znode; one that is not there is zk.ErrNoNode.
func (p *Pipeline) Exists(path string) *Pending[zk.Stat] {
	return add(p, "exists", wire.OpExists, path, &wire.WatchRequest{Path: p.s.serverPath(path)}, readStat)
}

// WatchExists is Exists with a watch, which is also set if the znode is not there.
func (p *Pipeline) WatchExists(path string) (*Pending[zk.Stat], *Watch) {
	k := add(p, "exists", wire.OpExists, path, &wire.WatchRequest{Path: p.s.serverPath(path), Watch: true}, readStat)
	k.arm = p.s.newWatch(zk.WatchData, path)
	k.arm.exists = true
	return k, k.arm
}

func readStat(_ *Session, d *wire.Decoder, v *zk.Stat) error {
	*v = d.Stat()
	return nil
}

// Get adds a request for the data and stat of a znode.
func (p *Pipeline) Get(path string) *Pending[Node] {
	return add(p, "get", wire.OpGetData, path, &wire.WatchRequest{Path: p.s.serverPath(path)}, readNode)
}

// WatchGet is Get with a watch, which is set only if the request succeeds.
func (p *Pipeline) WatchGet(path string) (*Pending[Node], *Watch) {
	k := add(p, "get", wire.OpGetData, path, &wire.WatchRequest{Path: p.s.serverPath(path), Watch: true}, readNode)
	k.arm = p.s.newWatch(zk.WatchData, path)
	return k, k.arm
}

func readNode(_ *Session, d *wire.Decoder, v *Node) error {
	v.Data = bytes.Clone(d.Buffer()) // the frame's bytes are used again
	v.Stat = d.Stat()
	return nil
}

// Children adds a request for the children of a znode.
func (p *Pipeline) Children(path string) *Pending[Listing] {
	return add(p, "children", wire.OpGetChildren2, path, &wire.WatchRequest{Path: p.s.serverPath(path)}, readListing)
}

// WatchChildren is Children with a watch, which is set only if the request succeeds.
func (p *Pipeline) WatchChildren(path string) (*Pending[Listing], *Watch) {
	k := add(p, "children", wire.OpGetChildren2, path, &wire.WatchRequest{Path: p.s.serverPath(path), Watch: true}, readListing)
	k.arm = p.s.newWatch(zk.WatchChildren, path)
	return k, k.arm
}

func readListing(_ *Session, d *wire.Decoder, v *Listing) error {
	v.Names, v.Stat = d.Strings(), d.Stat()
	return nil
}

func (s *Session) newWatch(kind zk.WatchKind, path string) *Watch {
	return &Watch{signal: signal{s: s}, key: watchKey{kind, s.serverPath(path)}}
}

// Set adds a request to replace the data of a znode, if it has that version; zk.AnyVersion is any.
func (p *Pipeline) Set(path string, data []byte, version int32) *Pending[zk.Stat] {
	return add(p, "set", wire.OpSetData, path, &wire.SetDataRequest{Path: p.s.serverPath(path), Data: data, Version: version}, readStat)
}

// Sync adds a request that is answered once the server we are connected to has everything that the
// leader had when it saw the request: reads behind it see no older state.
func (p *Pipeline) Sync(path string) *Pending[struct{}] {
	return add[struct{}](p, "sync", wire.OpSync, path, &wire.PathRecord{Path: p.s.serverPath(path)}, nil)
}

// ACL adds a request for the access control list of a znode.
func (p *Pipeline) ACL(path string) *Pending[Access] {
	return add(p, "getACL", wire.OpGetACL, path, &wire.PathRecord{Path: p.s.serverPath(path)}, readAccess)
}

func readAccess(_ *Session, d *wire.Decoder, v *Access) error {
	v.ACL, v.Stat = d.ACL(), d.Stat()
	return nil
}

// Access is the access control list of a znode, with the stat of the znode.
type Access struct {
	ACL  []zk.ACL
	Stat zk.Stat
}

// SetACL adds a request to replace the access control list of a znode, if the list has that version
// (Stat.Aversion); zk.AnyVersion is any.
func (p *Pipeline) SetACL(path string, acl []zk.ACL, version int32) *Pending[zk.Stat] {
	return add(p, "setACL", wire.OpSetACL, path, &wire.SetACLRequest{Path: p.s.serverPath(path), ACL: acl, Version: version}, readStat)
}
