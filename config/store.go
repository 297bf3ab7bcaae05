package config

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// writerName is the name of the znode that names the writer of its parent.
const writerName = "_writer"

// A Writer names the program that has written a znode with Store.
type Writer struct {
	Label string `json:"label"` // as given to Store
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	Write string `json:"write"` // random, another one for each write
}

// writerOf returns what _writer says, if it was written in the same transaction as the znode.
func writerOf(view cache.View, n cache.Node) *Writer {
	w, ok := view.Get(zk.Join(n.Path, writerName))
	if !ok || w.Stat.Mzxid != n.Stat.Mzxid {
		return nil
	}
	var who Writer
	if json.Unmarshal(w.Data, &who) != nil {
		return nil
	}
	return &who
}

// StoreOptions configure Store. The zero value of every field means its default.
type StoreOptions struct {
	// Label is free text that names the writer, for others to see (Source.Writer).
	Label string

	// ACL is the access control list of znodes that are made. Default: every client may do anything.
	ACL []zk.ACL
}

// NotThere in place of a version is for a znode that must not be there yet.
const NotThere int32 = -2

// Store writes the data of a znode if it has the given version: one from a Source, zk.AnyVersion for any, which creates
// the znode if it is missing, or NotThere. Another version is zk.ErrBadVersion, and for NotThere zk.ErrNodeExists.
//
// A lost answer is resolved by looking, and the write is tried again if it is not there. client.MaybeApplied is true of an
// error after an attempt that may have been carried out: another writer can have replaced what it wrote. When the session ends,
// Store goes on under the next one, unless there is such a doubt.
func Store(ctx context.Context, k *client.Keeper, path string, data []byte, version int32, opt StoreOptions) error {
	if err := operr.NoKeeper("store", path, k); err != nil {
		return err
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	host, _ := os.Hostname()
	who, err := json.Marshal(Writer{Label: opt.Label, Host: host, PID: os.Getpid(), Write: hex.EncodeToString(id[:])})
	if err != nil {
		return &client.OpError{Op: "store", Path: path, Err: err}
	}
	w := storeCall{path: path, data: data, who: who, version: version, acl: opt.ACL}
	var inDoubt error
	err = k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		w.s = s
		err := w.run(ctx)
		if w.doubt {
			inDoubt = err
			return nil
		}
		return err
	})
	if inDoubt != nil {
		err = inDoubt
	}
	if err == nil {
		return nil
	}
	out := &client.OpError{Op: "store", Path: path, Err: err, Maybe: w.doubt}
	var op *client.OpError
	if errors.As(err, &op) {
		out.Err = op.Err
		if op.Path != path && op.Path != "" { // the error names the other znode, whose outcome is not that of the write
			out.Err = &client.OpError{Op: op.Op, Path: op.Path, Err: op.Err}
		}
	}
	var failed *client.MultiError
	if errors.As(err, &failed) && failed.Path == path {
		out.Err = failed.Err
	}
	return out
}

// storeCall is one write.
type storeCall struct {
	s       *client.Session
	path    string
	data    []byte
	who     []byte
	version int32
	acl     []zk.ACL
	doubt   bool // the outcome of an attempt is unknown: if the writer is not ours, a later one may have replaced it
}

// run writes until it is known whether it is done.
func (w *storeCall) run(ctx context.Context) error {
	for {
		ops, err := w.ops(ctx)
		if err != nil {
			return err
		}
		_, err = w.s.Multi(ctx, ops...)
		w.doubt = w.doubt || client.MaybeApplied(err)
		var failed *client.MultiError
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrConnectionLoss):
			if done, err := w.done(ctx); done || err != nil {
				return err
			}
		case errors.As(err, &failed) && w.isRace(failed): // another client has created or deleted something: look again
		default:
			return err
		}
	}
}

// isRace reports whether an operation has failed because of what was there when we looked, and not because of the version.
func (w *storeCall) isRace(failed *client.MultiError) bool {
	if failed.Path != w.path {
		return failed.Err == zk.ErrNoNode || failed.Err == zk.ErrNodeExists
	}
	return w.version == zk.AnyVersion && (failed.Err == zk.ErrNoNode || failed.Err == zk.ErrNodeExists)
}

// ops returns the transaction: the znode and its writer.
func (w *storeCall) ops(ctx context.Context) ([]client.Op, error) {
	_, there, err := w.s.Exists(ctx, w.path)
	if err != nil {
		return nil, err
	}
	writer := zk.Join(w.path, writerName)
	if w.version == NotThere || w.version == zk.AnyVersion && !there {
		if err := w.s.EnsurePath(ctx, zk.Parent(w.path), w.acl); err != nil {
			return nil, err
		}
		return []client.Op{client.OpCreate(w.path, w.data, zk.Persistent, w.acl), client.OpCreate(writer, w.who, zk.Persistent, w.acl)}, nil
	}
	set := client.OpSet(w.path, w.data, w.version)
	_, there, err = w.s.Exists(ctx, writer)
	if there {
		return []client.Op{set, client.OpSet(writer, w.who, zk.AnyVersion)}, err
	}
	return []client.Op{set, client.OpCreate(writer, w.who, zk.Persistent, w.acl)}, err
}

// done reports whether the writer is ours: then a transaction whose answer was lost was carried out. Otherwise it was not,
// or a later write of another client has replaced it.
func (w *storeCall) done(ctx context.Context) (bool, error) {
	if err := w.s.AwaitWrites(ctx); err != nil {
		return false, err
	}
	who, _, err := w.s.Get(ctx, zk.Join(w.path, writerName))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	case err != nil:
		return false, err
	}
	return string(who) == string(w.who), nil
}
