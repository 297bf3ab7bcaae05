package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	keysEach      = 8 // persistent znodes that a writer creates, changes and deletes
	multiKeys     = 3 // how many of them a multi changes
	ephemeralsMax = 4 // of a writer at a time
)

// A writer makes requests below a znode of its own, one after the other, and remembers what it knows.
type writer struct {
	memory
	dir          string
	rng          *rand.Rand
	values       int // every value is another one
	acknowledged int
}

// A request is one operation, or several in a multi, and what they make of the znodes.
type request struct {
	ops     []any
	change  change
	refused bool // it must be, since it ends with a check that does not hold
}

// write makes requests until one is not answered. It returns when the last one that was answered had
// been sent, and what the server refused without a reason.
func (w *writer) write(s *session) (lastSent time.Time, err error) {
	for {
		r := w.next(s.id)
		w.unanswered = r.change
		sent := time.Now()
		err := r.send(s.conn)
		switch {
		case r.refused && errors.Is(err, zk.ErrBadVersion):
		case err == nil && !r.refused:
			w.learn(r.change)
		case err == nil:
			return lastSent, fmt.Errorf("%s: a multi with a check that does not hold was done: %v", w.dir, r)
		case slices.Contains(answers, err):
			return lastSent, fmt.Errorf("%s: %v: %w", w.dir, r, err)
		default:
			if r.refused { // must not have happened, answered or not
				w.unanswered = nil
			}
			return lastSent, nil
		}
		w.unanswered, lastSent = nil, sent
		w.acknowledged++
	}
}

// answers are the errors by which a server answers a request. All others come from the client itself.
var answers = []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals,
	zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAPIError, zk.ErrBadArguments, zk.ErrUnknown}

// next makes up a request that is right by all that is known.
func (w *writer) next(session int64) request {
	r := request{change: change{}}
	switch w.rng.IntN(8) {
	case 0, 1, 2:
		w.touch(&r, w.rng.IntN(keysEach))
	case 3, 4:
		w.touchSome(&r)
	case 5:
		w.touchSome(&r)
		r.ops = append(r.ops, &zk.CheckVersionRequest{Path: w.dir, Version: 1 << 20})
		r.refused = true
	case 6:
		w.ephemeral(&r, session)
	case 7:
		w.ephemeral(&r, session)
		w.touch(&r, w.rng.IntN(keysEach))
	}
	return r
}

func (w *writer) touchSome(r *request) {
	for _, k := range w.rng.Perm(keysEach)[:multiKeys] {
		w.touch(r, k)
	}
}

// touch creates a key that is not there, and sets or deletes one that is.
func (w *writer) touch(r *request, key int) {
	path := fmt.Sprintf("%s/k%d", w.dir, key)
	n, ok := w.nodes[path]
	switch {
	case !ok:
		w.create(r, path, 0)
	case w.rng.IntN(4) == 0:
		w.delete(r, path, n)
	default:
		data := w.value()
		r.ops = append(r.ops, &zk.SetDataRequest{Path: path, Data: []byte(data), Version: n.version})
		r.change[path] = &node{data, n.version + 1, 0}
	}
}

// ephemeral creates an ephemeral, or deletes one that the session has.
func (w *writer) ephemeral(r *request, session int64) {
	n := 0
	for path, node := range w.nodes {
		if node.owner != session {
			continue
		}
		n++
		if n == ephemeralsMax {
			w.delete(r, path, node)
			return
		}
	}
	w.create(r, fmt.Sprintf("%s/e%d", w.dir, w.values), session)
}

func (w *writer) create(r *request, path string, owner int64) {
	data, flags := w.value(), int32(0)
	if owner != 0 {
		flags = zk.FlagEphemeral
	}
	r.ops = append(r.ops, &zk.CreateRequest{Path: path, Data: []byte(data), Acl: zk.WorldACL(zk.PermAll), Flags: flags})
	r.change[path] = &node{data, 0, owner}
}

func (w *writer) delete(r *request, path string, n node) {
	r.ops = append(r.ops, &zk.DeleteRequest{Path: path, Version: n.version})
	r.change[path] = nil
}

func (w *writer) value() string {
	w.values++
	return fmt.Sprintf("%s#%d", w.dir, w.values)
}

// send sends one operation as such, several as a multi.
func (r *request) send(c *zk.Conn) (err error) {
	if len(r.ops) > 1 {
		results, err := c.Multi(r.ops...)
		for _, res := range results {
			if err == nil {
				err = res.Error
			}
		}
		return err
	}
	switch op := r.ops[0].(type) {
	case *zk.CreateRequest:
		_, err = c.Create(op.Path, op.Data, op.Flags, op.Acl)
	case *zk.SetDataRequest:
		_, err = c.Set(op.Path, op.Data, op.Version)
	case *zk.DeleteRequest:
		err = c.Delete(op.Path, op.Version)
	}
	return err
}

// String names the operations.
func (r request) String() string {
	text := ""
	for _, op := range r.ops {
		text += fmt.Sprintf("%T%+v ", op, op)
	}
	return text
}
