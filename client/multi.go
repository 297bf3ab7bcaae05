package client

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An Op is one operation of a Multi.
type Op struct {
	name string
	op   wire.MultiOp
}

// OpCreate creates a znode; modes with a time to live are not offered here.
func OpCreate(path string, data []byte, mode zk.Mode, acl []zk.ACL) Op {
	op := wire.OpCreate2
	if mode == zk.Container {
		op = wire.OpCreateContainer
	}
	return Op{"create", wire.MultiOp{Op: op, Path: path, Data: data, ACL: orOpen(acl), Mode: mode}}
}

// OpDelete deletes a znode if its data has that version; zk.AnyVersion is any.
func OpDelete(path string, version int32) Op {
	return Op{"delete", wire.MultiOp{Op: wire.OpDelete, Path: path, Version: version}}
}

// OpSet replaces the data of a znode if it has that version; zk.AnyVersion is any.
func OpSet(path string, data []byte, version int32) Op {
	return Op{"set", wire.MultiOp{Op: wire.OpSetData, Path: path, Data: data, Version: version}}
}

// OpCheck does nothing, and fails the multi unless the znode is there and its data has that version; zk.AnyVersion is any.
func OpCheck(path string, version int32) Op {
	return Op{"check", wire.MultiOp{Op: wire.OpCheck, Path: path, Version: version}}
}

// Path returns the path that the operation is about.
func (o Op) Path() string { return o.op.Path }

// A Result is what one operation of a successful Multi did.
type Result struct {
	Path string  // created
	Stat zk.Stat // after a set, and after a create where the server tells (3.7.2, 3.8.3 and later)
}

// A MultiError says which operation made a Multi fail. Nothing of the multi was applied.
type MultiError struct {
	Index int // of the operation, from 0
	Op    string
	Path  string
	Err   zk.Code
}

func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d, %s %s: %v", e.Index, e.Op, e.Path, e.Err)
}

// Unwrap returns the server's code.
func (e *MultiError) Unwrap() error { return e.Err }

// Multi adds a request to do all of ops in one transaction, or none. If an operation fails, the error
// is a *MultiError within the *OpError, and names it.
func (p *Pipeline) Multi(ops ...Op) *Pending[[]Result] {
	req := wire.MultiRequest{Ops: make([]wire.MultiOp, len(ops))}
	for i, o := range ops {
		req.Ops[i] = o.op
		req.Ops[i].Path = p.s.serverPathOfNew(o.op.Path, o.op.Mode)
	}
	path := ""
	if len(ops) > 0 {
		path = ops[0].op.Path
	}
	k := add[[]Result](p, "multi", wire.OpMulti, path, &req, nil)
	k.decode = func(d *wire.Decoder) error {
		r := wire.MultiResponse{Max: max(len(ops), 1)}
		r.DecodeFrom(d)
		if len(r.Results) != len(ops) {
			d.Fail(fmt.Errorf("%d results for %d operations", len(r.Results), len(ops)))
			return nil
		}
		// In a failed multi every result is an error: OK before the culprit, its own code, and RuntimeInconsistency behind it.
		for i, a := range r.Results {
			if a.Op == wire.OpError && a.Err != zk.OK && a.Err != zk.ErrRuntimeInconsistency {
				return &MultiError{Index: i, Op: ops[i].name, Path: ops[i].op.Path, Err: a.Err}
			}
		}
		k.value = make([]Result, len(ops))
		for i, a := range r.Results {
			if a.Op == wire.OpError {
				return zk.ErrRuntimeInconsistency
			}
			k.value[i] = Result{Path: k.s.clientPath(a.Path), Stat: a.Stat}
		}
		return nil
	}
	for i, o := range ops {
		k.check(o.op.Path, o.op.Mode)
		if o.op.Mode.TTL() {
			k.refuse = fmt.Errorf("%w: mode %v has a time to live", zk.ErrBadArguments, o.op.Mode)
		}
		if k.refuse != nil {
			k.refuse = fmt.Errorf("operation %d, %s: %w", i, o.name, k.refuse)
			break
		}
	}
	return k
}

// Multi does all of ops in one transaction, or none; see Pipeline.Multi.
func (s *Session) Multi(ctx context.Context, ops ...Op) ([]Result, error) {
	return once(ctx, s, func(p *Pipeline) *Pending[[]Result] { return p.Multi(ops...) })
}
