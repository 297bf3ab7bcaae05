package server

import (
	"math"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// turn is the state of answering one request that changes nothing in the tree. Its methods are for the goroutine that has
// the connection's turn and holds Server.state.
type turn struct {
	c   *conn
	who tree.Identities
	h   wire.ReplyHeader // of the answer, if all goes well
	d   wire.Decoder     // at the request's record

	granted int // bytes that have been reserved for the answer
	wants   int // bytes that have to be reserved first; nothing has been answered then
	bytes   int // that the answer has
}

// answers says how to serve the requests that are no writes. What is not here, and is no write,
// is not in the protocol.
var answers = map[wire.Op]func(*turn){
	wire.OpExists:           (*turn).exists,
	wire.OpGetData:          (*turn).data,
	wire.OpGetChildren:      (*turn).children,
	wire.OpGetChildren2:     (*turn).children2,
	wire.OpGetACL:           (*turn).acl,
	wire.OpAllChildrenCount: (*turn).allChildrenCount,
	wire.OpGetEphemerals:    (*turn).ephemerals,
	wire.OpMultiRead:        (*turn).multiRead,
	wire.OpSync:             (*turn).sync,
	wire.OpPing:             (*turn).ping,
	wire.OpWhoAmI:           (*turn).whoAmI,
	wire.OpAuth:             nil, // carried out elsewhere, because it changes the connection
	wire.OpSASL:             nil,
	wire.OpSetWatches:       (*turn).setWatches,
	wire.OpSetWatches2:      (*turn).setWatches,
	wire.OpAddWatch:         (*turn).addWatch,
	wire.OpCheckWatches:     (*turn).checkWatches,
	wire.OpRemoveWatches:    (*turn).removeWatches,
}

// largeListMin is up to how many entries or names a list is not looked at for its bytes.
const largeListMin = 64

const (
	// smallCount is up to how many znodes are counted, or compared with a prefix, like any other read.
	smallCount = 256
	// longCountBytes stands for the size of the answer if there are more. It is carried out like one that is large.
	longCountBytes = largeAnswerBytes + 1
)

// By how much an answer can be larger than its request.
const (
	setWatchesGrowth = 7 // an event for each path
	multiGrowth      = 4 // a stat for each setData
)

// answerBytes is about how many bytes the answer to a request is going to take, besides what all answers do: what it
// takes now, or at most. A client that pipelines has to be stopped before more waits for it than may.
func (s *Server) answerBytes(op wire.Op, body []byte) int {
	switch op {
	case wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2, wire.OpGetACL:
		path := wire.NewDecoder(body).StringView()
		s.state.RLock()
		defer s.state.RUnlock()
		return s.readBytes(op, path)
	case wire.OpMultiRead:
		if takesLong(op, len(body)) {
			return s.opts.OutputBytesMax // beyond it the request is refused
		}
		var q wire.MultiRequest
		q.DecodeFrom(wire.NewDecoder(body))
		s.state.RLock()
		defer s.state.RUnlock()
		n := 0
		for i := range q.Ops {
			n += s.readBytes(q.Ops[i].Op, q.Ops[i].Path)
		}
		return min(n, s.opts.OutputBytesMax)
	case wire.OpSetWatches, wire.OpSetWatches2:
		return setWatchesGrowth * len(body)
	case wire.OpMulti:
		return multiGrowth * len(body)
	}
	return 0
}

// readBytes is answerBytes for one znode; Server.state is locked.
func (s *Server) readBytes(op wire.Op, path string) int {
	switch op {
	case wire.OpGetData:
		stat, _ := s.tree.Lookup(path)
		return int(stat.DataLength)
	case wire.OpGetACL:
		return s.tree.ACLBytes(path)
	}
	return s.tree.NamesBytes(path)
}

// ok begins a successful answer: the caller appends the record and calls end.
func (t *turn) ok() (b []byte, start int) { return t.c.out.begin(t.h) }

func (t *turn) end(b []byte, start int) {
	t.bytes = len(b) - start
	t.c.out.end(b, start)
}

// refuse answers with a code.
func (t *turn) refuse(code zk.Code) {
	t.h.Err = code
	t.c.out.reply(t.h)
}

// decodeOK reports whether the record could be read; if not, it has been answered.
func (t *turn) decodeOK() bool {
	if t.d.Err() != nil {
		t.refuse(zk.ErrMarshalling)
		return false
	}
	return true
}

// readWatch reads a path and whether to watch it.
func (t *turn) readWatch() (path string, watch, ok bool) {
	path, watch = t.d.StringView(), t.d.Bool()
	if !t.decodeOK() {
		return "", false, false
	}
	if watch && !t.c.mayWatch(1, len(path)) {
		t.refuse(zk.ErrThrottled)
		return "", false, false
	}
	return path, watch, true
}

func (t *turn) exists() {
	path, watch, ok := t.readWatch()
	if !ok {
		return
	}
	stat, code := t.c.s.tree.Exists(t.who, path)
	if watch && (code == zk.OK || code == zk.ErrNoNode) {
		t.c.watch(path, zk.WatchData)
	}
	if code != zk.OK {
		t.refuse(code)
		return
	}
	b, start := t.ok()
	t.end(wire.AppendStat(b, &stat), start)
}

func (t *turn) data() {
	path, watch, ok := t.readWatch()
	if !ok {
		return
	}
	data, stat, code := t.c.s.tree.Get(t.who, path)
	if code != zk.OK {
		t.refuse(code)
		return
	}
	if !t.mayTake(len(data)) {
		return
	}
	if watch {
		t.c.watch(path, zk.WatchData)
	}
	b, start := t.ok()
	t.end(wire.AppendStat(wire.AppendBuffer(b, data), &stat), start)
}

func (t *turn) children()  { t.listChildren(false) }
func (t *turn) children2() { t.listChildren(true) }

func (t *turn) listChildren(withStat bool) {
	path, watch, ok := t.readWatch()
	if !ok {
		return
	}
	kids, stat, code := t.c.s.tree.Children(t.who, path)
	if code != zk.OK {
		t.refuse(code)
		return
	}
	if stat.NumChildren > largeListMin && !t.mayTake(t.c.s.tree.NamesBytes(path)) {
		return
	}
	if watch {
		t.c.watch(path, zk.WatchChildren)
	}
	b, start := t.ok()
	b = wire.AppendInt32(b, stat.NumChildren)
	for name := range kids.Names() {
		b = wire.AppendString(b, name)
	}
	if withStat {
		b = wire.AppendStat(b, &stat)
	}
	t.end(b, start)
}

func (t *turn) acl() {
	path := t.d.String()
	if !t.decodeOK() {
		return
	}
	acl, stat, code := t.c.s.tree.ACL(t.who, path)
	if code != zk.OK {
		t.refuse(code)
		return
	}
	if len(acl) > largeListMin && !t.mayTake(t.c.s.tree.ACLBytes(path)) {
		return
	}
	b, start := t.ok()
	t.end(wire.AppendStat(wire.AppendACL(b, acl), &stat), start)
}

func (t *turn) allChildrenCount() {
	path := t.d.String()
	if !t.decodeOK() {
		return
	}
	count, code := t.c.s.tree.CountBelow(t.who, path)
	if code != zk.OK {
		t.refuse(code)
		return
	}
	if count.Next(smallCount) && !t.mayTake(longCountBytes) {
		return
	}
	count.Next(math.MaxInt)
	t.answerCount(&count)
}

func (t *turn) answerCount(count *tree.Count) {
	b, start := t.ok()
	t.end(wire.AppendInt32(b, count.N), start)
}

func (t *turn) ephemerals() {
	prefix, _ := t.d.NullString()
	if bare := strings.TrimFunc(prefix, func(r rune) bool { return r <= ' ' }); bare == "" || bare == "/" {
		prefix = "" // all, as Java trims it
	}
	if !t.decodeOK() {
		return
	}
	znodes, bytes := t.c.s.tree.EphemeralSize(t.c.session)
	if znodes > smallCount {
		bytes = max(bytes, longCountBytes)
	}
	if !t.mayTake(bytes) {
		return
	}
	b, start := t.ok()
	t.end(wire.AppendStrings(b, t.c.s.tree.Ephemerals(t.c.session, prefix)), start)
}

// reads decodes a multiRead; if it cannot be read, it has been answered.
func (t *turn) reads() (q wire.MultiRequest, ok bool) {
	q.Max = t.c.s.opts.MultiOpsMax
	q.DecodeFrom(&t.d)
	for i := range q.Ops {
		if op := q.Ops[i].Op; op != wire.OpGetData && op != wire.OpGetChildren {
			t.d.Fail(errMultiKinds)
		}
	}
	return q, t.decodeOK()
}

// multiRead answers several reads, each with its own code. It sets no watches.
func (t *turn) multiRead() {
	q, ok := t.reads()
	if !ok {
		return
	}
	bytes := 0
	for i := range q.Ops {
		bytes += t.c.s.readBytes(q.Ops[i].Op, q.Ops[i].Path)
	}
	if bytes > t.c.s.opts.OutputBytesMax {
		t.refuse(zk.ErrMarshalling)
		return
	}
	if !t.mayTake(bytes) {
		return
	}
	b, start := t.ok()
	for i := range q.Ops {
		b = t.appendRead(b, &q.Ops[i])
	}
	t.end(wire.AppendMultiEnd(b), start)
}

// appendRead appends the answer to one part of a multiRead.
func (t *turn) appendRead(b []byte, op *wire.MultiOp) []byte {
	res := wire.MultiResult{Op: op.Op}
	if op.Op == wire.OpGetData {
		res.Data, res.Stat, res.Err = t.c.s.tree.Get(t.who, op.Path)
	} else {
		var kids tree.Kids
		var stat zk.Stat
		kids, stat, res.Err = t.c.s.tree.Children(t.who, op.Path)
		if res.Err == zk.OK {
			return appendNames(wire.AppendMultiChildren(b, stat.NumChildren), &kids, int(stat.NumChildren))
		}
	}
	if res.Err != zk.OK {
		res.Op = wire.OpError
	}
	return res.AppendTo(b)
}

// sync has waited for its turn behind all writes that were there before it: that is all it does.
func (t *turn) sync() {
	path := t.d.String()
	if !t.decodeOK() {
		return
	}
	b, start := t.ok()
	t.end(wire.AppendString(b, path), start)
}

// ping is answered with its own xid, whatever the request's was.
func (t *turn) ping() {
	t.h.Xid = wire.XidPing
	t.c.out.reply(t.h)
}
