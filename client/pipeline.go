package client

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Pipeline collects requests that are to leave together: on one connection, in one write unless they take
// megabytes, in the order in which they were added, with no other request of the session between them. If one is
// withdrawn (Pending.Wait), none is sent. Nothing happens before Send. A Pipeline is used by one goroutine, once.
type Pipeline struct {
	s     *Session
	calls []*call
}

// Pipeline returns an empty pipeline.
func (s *Session) Pipeline() *Pipeline { return &Pipeline{s: s, calls: make([]*call, 0, 2)} }

// Send hands the requests over. It waits while the session has no room for them (InFlightMax), behind callers
// that wait for room already, at most until ctx ends. It returns no error: what became of each request, its Pending says,
// also if it could not be handed over. Sending again hands over nothing twice.
func (p *Pipeline) Send(ctx context.Context) {
	s, calls := p.s, p.calls
	p.calls = nil
	if len(calls) == 0 {
		return
	}
	ended := s.endOf(ctx)
	s.mu.Lock()
	reason := s.refusalLocked(ended, calls)
	if reason == nil && (len(s.mu.roomLine) > 0 || !s.roomLocked(len(calls))) {
		reason = s.waitForRoomLocked(ctx, calls)
	}
	s.mu.inFlight += len(calls)
	for _, c := range calls {
		if c.arm != nil {
			s.watches.expect(c.arm)
		}
		if reason != nil {
			s.failLocked(c, reason)
		} else {
			s.mu.queue = append(s.mu.queue, c)
		}
	}
	queued := reason == nil && !s.sendAloneLocked(calls)
	s.mu.Unlock()
	if queued {
		tell(s.wake)
	}
}

// check notes the error if path is not valid: below a chroot, such a string could name a znode outside. The name
// of a sequential znode ends with what the server appends.
func (k *call) check(path string, mode zk.Mode) {
	if mode.Sequential() && len(zk.Base(path)) < len("...") { // "", "." and ".." are no names by themselves
		path += "0"
	}
	if k.refuse == nil {
		k.refuse = zk.ValidatePath(path)
	}
}

// add makes a call and returns its Pending. Every kind of request comes through here. read, which may be nil, is for call.decode.
func add[T any](p *Pipeline, name string, op wire.Op, path string, req wire.Record, read func(*wire.Decoder) T) *Pending[T] {
	k := &Pending[T]{call: newCall(op, name, path, req)}
	k.s = p.s
	if read != nil {
		k.decode = func(d *wire.Decoder) error {
			k.value = read(d)
			return nil
		}
	}
	switch op {
	case wire.OpAuth, wire.OpWhoAmI, wire.OpCloseSession: // have none
	case wire.OpMulti, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL: // look at theirs themselves
	default:
		k.check(path, zk.Persistent)
	}
	k.joined = len(p.calls) > 0
	p.calls = append(p.calls, &k.call)
	return k
}

// roomLocked reports whether there is room for n more calls. More than InFlightMax at once go alone.
func (s *Session) roomLocked(n int) bool {
	return s.mu.inFlight == 0 || s.mu.inFlight+n <= s.opt.InFlightMax
}

// waitForRoomLocked returns nil once there is room for the calls and for those that wait ahead. Otherwise it returns why they cannot
// be taken. Without a line, pipelines would wait for ever while enough single requests come.
func (s *Session) waitForRoomLocked(ctx context.Context, calls []*call) (reason error) {
	woken := make(chan struct{}, 1)
	s.mu.roomLine = append(s.mu.roomLine, woken)
	s.addDependentsLocked(1) // the answers that make room have to be read
	for reason == nil && (s.mu.roomLine[0] != woken || !s.roomLocked(len(calls))) {
		s.mu.Unlock()
		select {
		case <-woken:
		case <-s.final.Done(): // refused below
		case <-ctx.Done():
		}
		ended := s.endOf(ctx)
		s.mu.Lock()
		reason = s.refusalLocked(ended, calls)
	}
	s.addDependentsLocked(-1)
	s.mu.roomLine = slices.DeleteFunc(s.mu.roomLine, func(other chan struct{}) bool { return other == woken })
	s.wakeNextLocked() // there may be room for the next one too
	return reason
}

// wakeNextLocked wakes the first caller that waits for room.
func (s *Session) wakeNextLocked() {
	if len(s.mu.roomLine) > 0 {
		tell(s.mu.roomLine[0])
	}
}

// endOf returns why ctx has ended, nil if it has not. It calls methods of ctx, which may be the user's, so mu must not be locked.
func (s *Session) endOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return s.cutOff(ending.Of(ctx))
}

// refusalLocked returns why the calls cannot be taken at all, or nil. ended is why the caller's context has ended.
func (s *Session) refusalLocked(ended error, calls []*call) error {
	if ended != nil { // also if the session is over: both may have come of one cause, which only the context has
		return ended
	}
	if err := s.Err(); err != nil {
		return err
	}
	for _, c := range calls {
		if c.refuse != nil {
			return c.refuse
		}
		n := len(c.frame) - 4
		if c.op == wire.OpAddWatch || c.arm != nil {
			n += rearmBytes // or no later connection would get past it
		}
		if n > s.opt.RequestBytesMax {
			return &SizeError{Bytes: int64(n), Max: s.opt.RequestBytesMax}
		}
	}
	return nil
}

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

// A Listing is the children of a znode. All names share one piece of memory: to keep a few of many for long, clone them (strings.Clone).
type Listing struct {
	Names []string // without their parent's path, in no particular order
	Stat  zk.Stat  // of the parent
}

// Create adds a request to create a znode. A nil acl lets every client do anything. Modes with a time to live go through CreateTTL.
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
// no change for ttl, a millisecond at least. Servers refuse it unless extended types are enabled.
func (p *Pipeline) CreateTTL(path string, data []byte, mode zk.Mode, acl []zk.ACL, ttl time.Duration) *Pending[Created] {
	req := wire.CreateTTLRequest{
		CreateRequest: wire.CreateRequest{Path: p.s.serverPathOfNew(path, mode), Data: data, ACL: orOpen(acl), Mode: mode},
		TTL:           ttl.Milliseconds(),
	}
	k := addCreate(p, wire.OpCreateTTL, path, mode, &req)
	if !mode.TTL() || ttl < time.Millisecond { // a server of Apache's may take such a request, and never start again
		k.refuse = fmt.Errorf("%w: mode %v with a time to live of %v", zk.ErrBadArguments, mode, ttl)
	}
	return k
}

func addCreate(p *Pipeline, op wire.Op, path string, mode zk.Mode, req wire.Record) *Pending[Created] {
	s := p.s
	k := add(p, "create", op, path, req, func(d *wire.Decoder) Created {
		return Created{Path: s.clientPath(d.String()), Stat: d.Stat()}
	})
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

// Delete adds a request to delete a znode, if its data has that version; zk.AnyVersion is any.
func (p *Pipeline) Delete(path string, version int32) *Pending[struct{}] {
	return add[struct{}](p, "delete", wire.OpDelete, path, &wire.VersionRequest{Path: p.s.serverPath(path), Version: version}, nil)
}

// Exists adds a request for the stat of a znode; one that is not there is zk.ErrNoNode.
func (p *Pipeline) Exists(path string) *Pending[zk.Stat] {
	return add(p, "exists", wire.OpExists, path, &wire.WatchRequest{Path: p.s.serverPath(path)}, (*wire.Decoder).Stat)
}

// WatchExists is Exists with a watch, which is also set if the znode is not there.
func (p *Pipeline) WatchExists(path string) (*Pending[zk.Stat], *Watch) {
	return arm(p.Exists(path), zk.WatchData)
}

// arm makes a read set a watch of that kind, and returns both.
func arm[T any](k *Pending[T], kind zk.WatchKind) (*Pending[T], *Watch) {
	k.frame[len(k.frame)-1] = 1 // wire.WatchRequest ends with Watch
	k.arm = &Watch{signal: signal{s: k.s}, key: watchKey{kind, k.s.serverPath(k.path)}}
	return k, k.arm
}

// Get adds a request for the data and stat of a znode.
func (p *Pipeline) Get(path string) *Pending[Node] {
	return add(p, "get", wire.OpGetData, path, &wire.WatchRequest{Path: p.s.serverPath(path)}, func(d *wire.Decoder) Node {
		return Node{Data: bytes.Clone(d.Buffer()), Stat: d.Stat()} // the frame's bytes are used again
	})
}

// WatchGet is Get with a watch, which is set only if the request succeeds.
func (p *Pipeline) WatchGet(path string) (*Pending[Node], *Watch) {
	return arm(p.Get(path), zk.WatchData)
}

// Children adds a request for the children of a znode.
func (p *Pipeline) Children(path string) *Pending[Listing] {
	return add(p, "children", wire.OpGetChildren2, path, &wire.WatchRequest{Path: p.s.serverPath(path)}, func(d *wire.Decoder) Listing {
		return Listing{Names: d.Strings(), Stat: d.Stat()}
	})
}

// WatchChildren is Children with a watch, which is set only if the request succeeds.
func (p *Pipeline) WatchChildren(path string) (*Pending[Listing], *Watch) {
	return arm(p.Children(path), zk.WatchChildren)
}

// Set adds a request to replace the data of a znode, if it has that version; zk.AnyVersion is any.
func (p *Pipeline) Set(path string, data []byte, version int32) *Pending[zk.Stat] {
	return add(p, "set", wire.OpSetData, path, &wire.SetDataRequest{Path: p.s.serverPath(path), Data: data, Version: version}, (*wire.Decoder).Stat)
}

// Sync adds a request that is answered once the server we are connected to has everything that the leader had when it saw the
// request: reads behind it see no older state. If that server is the leader itself, it answers at once, without what it has proposed
// and not yet committed and applied: what became of a write whose answer was lost, only AwaitWrites tells.
func (p *Pipeline) Sync(path string) *Pending[struct{}] {
	return add[struct{}](p, "sync", wire.OpSync, path, &wire.PathRecord{Path: p.s.serverPath(path)}, nil)
}

// AwaitWrites adds a request that is answered once every write that the session has sent before is decided, on connections that are
// gone as well: reads behind it see what became of them. It is a transaction that changes nothing, so it waits for a quorum.
func (p *Pipeline) AwaitWrites() *Pending[struct{}] {
	k := add[struct{}](p, "await writes", wire.OpMulti, "/", noChange, nil)
	k.writes = false
	return k
}

// noChange is a transaction that changes nothing. What becomes of the check is no matter, so it needs no permission.
var noChange = &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpCheck, Path: "/", Version: -1}}}

// ACL adds a request for the access control list of a znode.
func (p *Pipeline) ACL(path string) *Pending[Access] {
	return add(p, "getACL", wire.OpGetACL, path, &wire.PathRecord{Path: p.s.serverPath(path)}, func(d *wire.Decoder) Access {
		return Access{ACL: d.ACL(), Stat: d.Stat()}
	})
}

// Access is the access control list of a znode, with the stat of the znode.
type Access struct {
	ACL  []zk.ACL
	Stat zk.Stat
}

// SetACL adds a request to replace the access control list of a znode, if the list has that version (Stat.Aversion); zk.AnyVersion is any.
func (p *Pipeline) SetACL(path string, acl []zk.ACL, version int32) *Pending[zk.Stat] {
	return add(p, "setACL", wire.OpSetACL, path, &wire.SetACLRequest{Path: p.s.serverPath(path), ACL: acl, Version: version}, (*wire.Decoder).Stat)
}
