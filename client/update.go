package client

import (
	"bytes"
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/zk"
)

// Update replaces the data of the znode at path by what change makes of it, and returns the new data and stat. It
// writes only if the data has not changed in between, and otherwise reads again and calls change again. An error of
// change ends Update and is returned as it is.
//
// If the answer to the write is lost, Update looks: it goes on if the write was certainly not carried out. If the znode
// has changed and nothing proves that another writer did it, the outcome is unknown: MaybeApplied is true of the error,
// and nothing was written a second time. If change does not depend on the old data, Put is simpler.
func (s *Session) Update(ctx context.Context, path string, change func(old []byte) ([]byte, error)) (Node, error) {
	for {
		data, stat, err := s.Get(ctx, path)
		if err != nil {
			return Node{}, err
		}
		next, err := change(data)
		if err != nil {
			return Node{}, err
		}
		made, err := s.Set(ctx, path, next, stat.Version)
		switch {
		case err == nil:
			return Node{Data: next, Stat: made}, nil
		case errors.Is(err, zk.ErrBadVersion):
			// The server that we read from may be behind.
			if err := s.Sync(ctx, path); err != nil {
				return Node{}, err
			}
		case lost(err):
			if err := s.wasSet(ctx, path, stat, next, err); err != nil {
				return Node{}, err
			}
		default:
			return Node{}, err
		}
	}
}

// wasSet looks what became of a set of version before.Version+1 whose answer was lost. It returns nil if the set was
// certainly not carried out, and otherwise an error for which MaybeApplied is true.
func (s *Session) wasSet(ctx context.Context, path string, before zk.Stat, data []byte, why error) error {
	unknown := &OpError{Op: "update", Path: path, Err: why, Maybe: true}
	var op *OpError
	if errors.As(why, &op) {
		unknown.Err = op.Err
	}
	// Behind a sync, the server has everything that the old connection's request can have done.
	if err := s.Sync(ctx, path); err != nil {
		return unknown
	}
	now, stat, err := s.Get(ctx, path)
	switch {
	case err != nil || stat.Czxid != before.Czxid:
		return unknown
	case stat.Version == before.Version:
		return nil
	case stat.Version == before.Version+1 && !bytes.Equal(now, data):
		return nil // the change is another writer's, so ours would have found the wrong version
	}
	return unknown
}
