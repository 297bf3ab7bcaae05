package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// CreateOnce creates a znode, with what is missing above it, and resolves a lost answer: it looks whether the znode is
// there before it creates it again, so that there is one znode at most.
//
// Which znode is its own, CreateOnce tells by the data, by the session that owns it if the mode is ephemeral, and by the zxid: it
// must be newer than the call, for which modes that are not ephemeral cost a second round trip. So the data should tell writers apart, and
// the ACL has to let the session read it: a sequential znode that may not be read counts as another's. With data that others write as well, a
// persistent znode that another client created during the call may be taken for our own; for sequential modes the outcome is then unknown.
// MaybeApplied is true of an error that leaves the outcome open, as when ctx or the session ends before the look.
//
// Modes with a time to live are refused. The ACL is for the znode and those that are made above it; nil lets every client do anything.
func (s *Session) CreateOnce(ctx context.Context, path string, data []byte, mode zk.Mode, acl []zk.ACL) (Created, error) {
	if mode.TTL() {
		return Created{}, &OpError{Op: "create", Path: path, Err: zk.ErrBadArguments}
	}
	if !mode.Ephemeral() { // the owner does not tell: only the zxid tells old from new
		if err := s.Sync(ctx, "/"); err != nil { // path may be no znode's, but what the name of a sequential one begins with
			return Created{}, &OpError{Op: "create", Path: path, Err: cause(err)}
		}
	}
	after := s.lastZxid()
	doubt := false // a create was sent, and its answer was lost
	for {
		made, err := s.withParents(ctx, path, acl, func() (Created, error) { return s.Create(ctx, path, data, mode, acl) })
		switch {
		case isConnectionLoss(err):
			doubt = true
		case errors.Is(err, zk.ErrNodeExists) && doubt: // perhaps ours
		default:
			return made, err
		}
		own, found, lookErr := s.findCreated(ctx, path, data, mode, after)
		switch {
		case lookErr != nil:
			return Created{}, &OpError{Op: "create", Path: path, Err: lookErr, Maybe: true}
		case found:
			return own, nil
		case !isConnectionLoss(err):
			return Created{}, err
		}
	}
}

// findCreated looks for a znode whose creation is in doubt, and that is newer than the zxid after; for a sequential one among
// the newest names, until they are older.
func (s *Session) findCreated(ctx context.Context, path string, data []byte, mode zk.Mode, after int64) (own Created, found bool, err error) {
	if err := s.AwaitWrites(ctx); err != nil {
		return Created{}, false, cause(err)
	}
	paths := []string{path}
	if mode.Sequential() {
		dir := zk.Parent(path)
		names, _, err := s.Children(ctx, dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return Created{}, false, cause(err)
		}
		paths = newestFirst(names, zk.Base(path))
		for i, name := range paths {
			paths[i] = zk.Join(dir, name)
		}
	}
	owner := int64(0)
	if mode.Ephemeral() {
		owner = s.ID()
	}
	for _, path := range paths {
		there, stat, err := s.Get(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case errors.Is(err, zk.ErrNoAuth) && mode.Sequential(): // we could read our own
		case err != nil:
			return Created{}, false, cause(err)
		case stat.Czxid <= after:
			return own, found, nil
		case !bytes.Equal(there, data) || mode != zk.Container && stat.EphemeralOwner != owner: // another's
		case found:
			return Created{}, false, errors.New("the answer was lost, and several znodes could be the one that was created")
		default:
			own, found = Created{Path: path, Stat: stat}, true
		}
	}
	return own, found, nil
}

// newestFirst returns the names that are base with a counter of the server's behind it, the newest first. The counter is a
// signed number of 32 bits that wraps around (ZOOKEEPER-2026), so numbers are compared in serial arithmetic (RFC 1982).
func newestFirst(names []string, base string) []string {
	numbers := map[string]int32{}
	for _, name := range names {
		n, err := strconv.ParseInt(strings.TrimPrefix(name, base), 10, 32)
		if err == nil && name == fmt.Sprintf("%s%010d", base, n) {
			numbers[name] = int32(n)
		}
	}
	return slices.SortedFunc(maps.Keys(numbers), func(a, b string) int { return int(numbers[b] - numbers[a]) })
}

// cause returns the error within an *OpError about another request.
func cause(err error) error {
	if op, ok := errors.AsType[*OpError](err); ok {
		return op.Err
	}
	return err
}

// Update replaces the data of the znode at path, which must be there, by what change makes of it, and returns the new data and
// stat. It writes only if the data has not changed in between, and otherwise reads again and calls change again. An error of change
// ends Update and is returned as it is.
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
		case errors.Is(err, zk.ErrBadVersion): // the server that we read from may be behind
			err = s.Sync(ctx, path)
		case isConnectionLoss(err):
			err = s.wasSet(ctx, path, stat, next, err)
		}
		if err != nil {
			return Node{}, err
		}
	}
}

// wasSet looks what became of a set of version before.Version+1 whose answer was lost. It returns nil if the set was
// certainly not carried out, and otherwise an error for which MaybeApplied is true.
func (s *Session) wasSet(ctx context.Context, path string, before zk.Stat, data []byte, why error) error {
	unknown := &OpError{Op: "update", Path: path, Err: cause(why), Maybe: true}
	if err := s.AwaitWrites(ctx); err != nil {
		return unknown
	}
	now, stat, err := s.Get(ctx, path)
	unchanged := stat.Version == before.Version
	others := stat.Version == before.Version+1 && !bytes.Equal(now, data) // so ours would have found the wrong version
	if err == nil && stat.Czxid == before.Czxid && (unchanged || others) {
		return nil
	}
	return unknown
}
