package counter

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A journal is an ephemeral znode of one Counter and session below the counter. Each change sets both in one transaction: so
// the version of the journal, which the Counter alone sets, tells whether a change was made whose answer was lost.
type journal struct {
	session *client.Session // that owns it; nil before the first
	path    string
	data    string // random: it tells the journal from those of other Counters, which can have the same session
	version int32  // changes that were made
	unsure  bool   // the version has to be read: a change ended with its outcome unknown
}

// journalName is in front of the names of journals.
const journalName = "_journal-"

// writeExactly changes the counter, and knows afterwards whether it did.
func (c *Counter) writeExactly(ctx context.Context, s *client.Session, f func(int64) (int64, error)) (Value, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return Value{}, &client.OpError{Op: "set", Path: c.path, Err: ending.Of(ctx)}
	}
	for {
		if err := c.openJournal(ctx, s); err != nil {
			return Value{}, notSent(err)
		}
		v, err := c.read(ctx, s)
		if err != nil {
			return Value{}, err
		}
		number, err := f(v.Number)
		if err != nil {
			return Value{}, err
		}
		results, err := s.Multi(ctx, client.OpSet(c.path, c.encode(number), v.Stat.Version), client.OpSet(c.journal.path, []byte(c.journal.data), c.journal.version))
		switch {
		case err == nil:
			c.journal.version++
			return Value{number, results[0].Stat}, nil
		case errors.Is(err, zk.ErrConnectionLoss):
			made, lookErr := c.wasCarriedOut(ctx, s)
			if lookErr != nil {
				c.journal.unsure = true
				return Value{}, &client.OpError{Op: "set", Path: c.path, Err: lookErr, Maybe: client.MaybeApplied(err)}
			}
			if made {
				return Value{Number: number}, nil
			}
		case client.MaybeApplied(err):
			c.journal.unsure = true
			return Value{}, err
		case errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode):
			if err := c.beginAnew(ctx, s, err); err != nil {
				return Value{}, notSent(err)
			}
		default:
			return Value{}, err
		}
	}
}

// beginAnew prepares another attempt: another client was quicker, or has deleted the counter or the journal.
func (c *Counter) beginAnew(ctx context.Context, s *client.Session, why error) error {
	var failed *client.MultiError
	if !errors.As(why, &failed) {
		return why
	}
	if failed.Path == c.journal.path {
		c.journal = journal{}
	}
	if err := s.Sync(ctx, c.path); err != nil { // the server that we read from may be behind
		return err
	}
	return c.ensure(ctx, s)
}

// openJournal finds or creates the journal for the session.
func (c *Counter) openJournal(ctx context.Context, s *client.Session) error {
	if c.journal.session == s && !c.journal.unsure {
		return nil
	}
	if c.journal.session == s {
		if err := s.Sync(ctx, c.path); err != nil { // behind what was sent before
			return err
		}
		version, found, err := c.lookAtJournal(ctx, s)
		if err != nil {
			return err
		}
		if found {
			c.journal.version, c.journal.unsure = version, false
			return nil
		}
	}
	data := rand.Text()
	made, err := s.CreateOnce(ctx, zk.Join(c.path, journalName), []byte(data), zk.EphemeralSequential, c.opt.ACL)
	if err != nil {
		return err
	}
	c.journal = journal{session: s, path: made.Path, data: data}
	return nil
}

// lookAtJournal returns the version of the journal. The journal is not found if it was deleted, or if the counter was as
// well and a journal of another Counter has its path.
func (c *Counter) lookAtJournal(ctx context.Context, s *client.Session) (version int32, found bool, err error) {
	data, stat, err := s.Get(ctx, c.journal.path)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, false, nil
	}
	return stat.Version, string(data) == c.journal.data, err
}

// wasCarriedOut reports whether the transaction whose answer was lost was carried out.
func (c *Counter) wasCarriedOut(ctx context.Context, s *client.Session) (bool, error) {
	if err := s.Sync(ctx, c.path); err != nil {
		return false, err
	}
	version, found, err := c.lookAtJournal(ctx, s)
	switch {
	case err != nil:
		return false, err
	case !found:
		return false, errors.New("the journal was deleted by another client")
	case version == c.journal.version:
		return false, nil
	case version == c.journal.version+1:
		c.journal.version++
		return true, nil
	}
	return false, errors.New("the journal was changed by another client")
}
