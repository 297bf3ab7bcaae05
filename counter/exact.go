package counter

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A journal is an ephemeral znode below a counter, for the Counters of one session. Each change sets both in one transaction: so
// the version of the journal, which those Counters alone set, tells whether a change was made whose answer was lost. Its name is
// random, so a creation whose outcome is unknown is resolved by looking, and no journal has the path of another.
type journal struct {
	session *client.Session
	counter string        // the counter's path
	turn    chan struct{} // holds a token while a change uses what is below
	path    string        // empty until the znode is created, and after it was found deleted
	version int32         // changes that were made
	unsure  bool          // the version has to be read, if the znode is there: a creation or a change ended with its outcome unknown
}

// journals are those of all sessions that live. They belong to sessions, because a program may make a Counter for each change.
var journals = struct {
	sync.Mutex
	of map[journalKey]*journal
}{of: map[journalKey]*journal{}}

type journalKey struct {
	session *client.Session
	counter string
}

// journal returns the journal of the session.
func (c *Counter) journal(s *client.Session) *journal {
	key := journalKey{s, c.path}
	journals.Lock()
	defer journals.Unlock()
	if j := journals.of[key]; j != nil {
		return j
	}
	j := &journal{session: s, counter: c.path, turn: make(chan struct{}, 1)}
	kept := s.Go(func(ctx context.Context) {
		<-ctx.Done()
		journals.Lock()
		defer journals.Unlock()
		delete(journals.of, key)
	})
	if kept { // otherwise the session is over
		journals.of[key] = j
	}
	return j
}

// journalName is in front of the names of journals.
const journalName = "_journal-"

// writeExactly changes the counter, and knows afterwards whether it did.
func (c *Counter) writeExactly(ctx context.Context, s *client.Session, f func(int64) (int64, error)) (Value, error) {
	j := c.journal(s)
	select {
	case j.turn <- struct{}{}:
		defer func() { <-j.turn }()
	case <-ctx.Done():
		return Value{}, &client.OpError{Op: "set", Path: c.path, Err: ending.Of(ctx)}
	}
	for {
		if err := j.open(ctx, c.opt.ACL); err != nil {
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
		results, err := s.Multi(ctx, client.OpSet(c.path, c.encode(number), v.Stat.Version), client.OpSet(j.path, nil, j.version))
		switch {
		case err == nil:
			j.version++
			return Value{number, results[0].Stat}, nil
		case errors.Is(err, zk.ErrConnectionLoss):
			made, lookErr := j.wasCarriedOut(ctx)
			if lookErr != nil {
				j.unsure = true
				return Value{}, &client.OpError{Op: "set", Path: c.path, Err: lookErr, Maybe: client.MaybeApplied(err)}
			}
			if made {
				return Value{Number: number}, nil
			}
		case client.MaybeApplied(err):
			j.unsure = true
			return Value{}, err
		case errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode):
			if err := c.beginAnew(ctx, j, err); err != nil {
				return Value{}, notSent(err)
			}
		default:
			return Value{}, err
		}
	}
}

// beginAnew prepares another attempt: another client was quicker, or has deleted the counter or the journal.
func (c *Counter) beginAnew(ctx context.Context, j *journal, why error) error {
	var failed *client.MultiError
	if !errors.As(why, &failed) {
		return why
	}
	if failed.Path == j.path {
		j.path = ""
	}
	if err := j.session.Sync(ctx, c.path); err != nil { // the server that we read from may be behind
		return err
	}
	return c.ensure(ctx, j.session)
}

// open finds or creates the znode.
func (j *journal) open(ctx context.Context, acl []zk.ACL) error {
	if j.path != "" && !j.unsure {
		return nil
	}
	if j.path == "" {
		j.path = zk.Join(j.counter, journalName+rand.Text())
	} else {
		version, found, err := j.look(ctx)
		if err != nil {
			return err
		}
		if found {
			j.version, j.unsure = version, false
			return nil
		}
	}
	j.unsure = true
	_, err := j.session.CreateOnce(ctx, j.path, nil, zk.Ephemeral, acl)
	if err != nil {
		return err
	}
	j.version, j.unsure = 0, false
	return nil
}

// look returns the version of the znode, and whether it is there, once all that was sent before is decided.
func (j *journal) look(ctx context.Context) (version int32, found bool, err error) {
	if err := j.session.AwaitWrites(ctx); err != nil {
		return 0, false, err
	}
	stat, found, err := j.session.Exists(ctx, j.path)
	return stat.Version, found, err
}

// wasCarriedOut reports whether the transaction whose answer was lost was carried out.
func (j *journal) wasCarriedOut(ctx context.Context) (bool, error) {
	version, found, err := j.look(ctx)
	switch {
	case err != nil:
		return false, err
	case !found:
		return false, errors.New("the journal was deleted by another client")
	case version == j.version:
		return false, nil
	case version == j.version+1:
		j.version++
		return true, nil
	}
	return false, errors.New("the journal was changed by another client")
}
