package server

import (
	"math"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/threads"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Requests that take long or have large answers are carried out by their connection's reader, one at a time in the whole
// server, and in pieces: Server.state is locked for one piece at a time. So other requests wait for one piece at most.

const (
	// pieceReads is how many reads, or watches, one hold of Server.state carries out.
	pieceReads = 256
	// pieceNames is how many names of children one hold of Server.state lists, or how many znodes it counts.
	pieceNames = 4096
	// pieceBytes is how many bytes of an answer end a piece.
	pieceBytes = 128 << 10
	// listAttempts is how often a list or count is begun anew because the directory or the tree has changed, before it is
	// made in one piece.
	listAttempts = 3
	// smallBody is up to what size a request that names many znodes is carried out like any other.
	smallBody = 2 << 10
)

// takesLong reports whether a read takes long, by its size: because it names many znodes, or one whose path is long. A
// sync is none: it waits in the queue.
func takesLong(op wire.Op, bodyBytes int) bool {
	switch op {
	case wire.OpMultiRead, wire.OpSetWatches, wire.OpSetWatches2:
		return bodyBytes > smallBody
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2, wire.OpGetACL, wire.OpAllChildrenCount,
		wire.OpGetEphemerals, wire.OpAddWatch, wire.OpCheckWatches, wire.OpRemoveWatches:
		return bodyBytes > largeAnswerBytes
	}
	return false
}

// costsLater reports whether what a read costs shows only when all is carried out that its connection has asked for before.
func costsLater(op wire.Op) bool {
	return op == wire.OpAllChildrenCount || op == wire.OpGetEphemerals || op == wire.OpWhoAmI
}

// answerLarge carries out a request whose answer takes about so many bytes. The caller has the turn. It returns false if
// the connection has ended.
func (c *conn) answerLarge(h wire.RequestHeader, body []byte, bytes int) (zxid int64, ok bool) {
	s := c.s
	defer c.keepSession()()
	for {
		if !s.answers.reserve(int64(bytes), s.cutGreediest, c.out.isClosed) {
			return 0, false
		}
		threads.Need()
		s.large <- struct{}{}
		zxid = s.lastZxid.Load()
		t := &c.turn
		t.c, t.who, t.h = c, c.who, wire.ReplyHeader{Xid: h.Xid, Zxid: zxid}
		t.granted, t.wants = max(bytes, largeAnswerBytes), 0
		t.d.Reset(body)
		switch h.Op {
		case wire.OpMultiRead:
			t.multiReadInPieces()
		case wire.OpSetWatches, wire.OpSetWatches2:
			t.setWatchesInPieces()
		case wire.OpGetChildren, wire.OpGetChildren2:
			t.listInPieces(h.Op == wire.OpGetChildren2)
		case wire.OpAllChildrenCount:
			t.countInPieces()
		default:
			t.piece(func() {
				t.h.Zxid = s.tree.LastZxid()
				answers[h.Op](t)
			})
		}
		t.d.Reset(nil)
		<-s.large
		s.answers.add(-int64(bytes))
		if c.ended {
			return 0, false
		}
		if t.wants == 0 {
			return zxid, true
		}
		bytes = t.wants // it has grown
	}
}

// keepSession keeps the session alive until stop is called: the client cannot be heard while its request waits for others.
func (c *conn) keepSession() (stop func()) {
	s, over := c.s, make(chan struct{})
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(c.timeout/3, func() {
		<-ready
		select {
		case <-over:
			return
		default:
		}
		s.sessions.Lock()
		s.sessions.table.Touch(c.session, c.id, s.now())
		s.sessions.Unlock()
		timer.Reset(c.timeout / 3)
	})
	close(ready)
	return func() {
		close(over)
		timer.Stop()
	}
}

// answerAtOnce carries out a request with a large answer on the goroutine that commits, which cannot wait for memory: a
// request gets here if its answer has grown while it waited in the queue. If the memory is used up, the connection ends.
// The caller holds Server.state.
func (c *conn) answerAtOnce(h wire.RequestHeader, body []byte, who tree.Identities) {
	t := &c.turn
	if bytes := t.wants; !c.s.answers.fits(int64(bytes)) {
		c.ended = true
		t.wants = 0
		c.out.giveUp(bytes)
		return
	}
	t.h = wire.ReplyHeader{Xid: h.Xid, Zxid: c.s.tree.LastZxid()}
	t.granted, t.wants = math.MaxInt, 0
	t.d.Reset(body)
	answers[h.Op](t)
	t.d.Reset(nil)
}

// piece calls do while nothing changes. It reports false, and does not call do, if the session belongs to another
// connection or is over.
func (t *turn) piece(do func()) bool {
	s := t.c.s
	s.state.RLock()
	defer s.state.RUnlock()
	if t.c.fenced.Load() {
		t.c.ended = true
		return false
	}
	do()
	return true
}

// mayTake reports whether an answer of so many bytes may be built. If not, nothing is answered yet, and the request is
// carried out again once the bytes are reserved.
func (t *turn) mayTake(bytes int) bool {
	if bytes <= largeAnswerBytes || bytes <= t.granted {
		return true
	}
	t.wants = bytes + bytes/8 // a little may be added meanwhile
	return false
}

// listInPieces is listChildren for a directory of any size.
func (t *turn) listInPieces(withStat bool) {
	path, watch, ok := t.readWatch()
	if !ok {
		return
	}
	for attempt := 0; ; attempt++ {
		names := pieceNames
		if attempt == listAttempts {
			names = math.MaxInt // whole, as it changes all the time
		}
		if t.tryList(path, watch, withStat, names) {
			return
		}
	}
}

// tryList lists a directory in pieces of so many names. It reports false if the directory changed between two of them.
func (t *turn) tryList(path string, watch, withStat bool, names int) (done bool) {
	s := t.c.s
	var kids, rest tree.Kids
	bytes, head, start := 0, 0, 0
	var b []byte
	whole := names == math.MaxInt
	for more := true; more; {
		alive := t.piece(func() {
			now, stat, code := s.tree.Children(t.who, path)
			t.h.Zxid = s.tree.LastZxid()
			switch {
			case code != zk.OK:
				t.refuse(code)
				done = true
				return
			case b == nil:
				kids, rest, bytes = now, now, s.tree.NamesBytes(path)
				done = !t.mayTake(bytes)
				return
			case now != kids && !whole:
				more = false
				return
			case now != kids:
				rest = now
				done = !t.mayTake(s.tree.NamesBytes(path))
				if done {
					return
				}
			}
			if len(b) == head {
				b = wire.AppendInt32(t.h.AppendTo(b), stat.NumChildren)
			}
			b = appendNames(b, &rest, names)
			more = !rest.Empty()
			if more {
				return
			}
			// The answer leaves in the hold that has read the last names: so no event comes before it of what it does
			// not show.
			if watch {
				t.c.watch(path, zk.WatchChildren)
			}
			if withStat {
				b = wire.AppendStat(b, &stat)
			}
			t.h.AppendTo(b[:head]) // with the zxid of this piece
			t.c.out.add(wire.EndFrame(b, start))
			done = true
		})
		if !alive || done {
			return true
		}
		if b == nil { // megabytes of memory take their time, in which nothing is locked
			b, start = wire.BeginFrame(make([]byte, 0, bytes+bytes/8+answerOverhead)) // with room for what is created meanwhile
			head = len(b)
		}
	}
	return false
}

// appendNames appends up to n names, and takes those children out of kids.
func appendNames(b []byte, kids *tree.Kids, n int) []byte {
	for ; n > 0; n-- {
		name, ok := kids.Next()
		if !ok {
			break
		}
		b = wire.AppendString(b, name)
	}
	return b
}

// countInPieces is allChildrenCount for a subtree of any size.
func (t *turn) countInPieces() {
	path := t.d.String()
	if !t.decodeOK() {
		return
	}
	for attempt := 0; ; attempt++ {
		znodes := pieceNames
		if attempt == listAttempts {
			znodes = math.MaxInt // as in listInPieces
		}
		if t.tryCount(path, znodes) {
			return
		}
	}
}

// tryCount counts a subtree in pieces of so many znodes. It reports false if the tree changed between two of them.
func (t *turn) tryCount(path string, znodes int) (done bool) {
	s := t.c.s
	var count tree.Count
	first, more := true, true
	for more {
		alive := t.piece(func() {
			zxid := s.tree.LastZxid()
			if first {
				first, t.h.Zxid = false, zxid
				var code zk.Code
				count, code = s.tree.CountBelow(t.who, path)
				if code != zk.OK {
					t.refuse(code)
					done = true
					return
				}
			}
			if zxid != t.h.Zxid {
				more = false
				return
			}
			more = count.Next(znodes)
			if !more {
				t.answerCount(&count)
				done = true
			}
		})
		if !alive || done {
			return true
		}
	}
	return false
}

const (
	answerOverhead    = 256 // bytes; more than an answer takes besides its names or data
	multiReadOverhead = 96  // likewise each part of a multiRead
)

// multiReadInPieces is multiRead for any number of reads. What it reads may change between two pieces, as between two
// requests; but it begins anew if the client was sent an event meanwhile, which would come before an answer that does not
// show the change.
func (t *turn) multiReadInPieces() {
	q, ok := t.reads()
	if !ok {
		return
	}
	s := t.c.s
	bytes := 0
	for from := 0; from < len(q.Ops); from += pieceReads {
		if !t.piece(func() {
			for _, op := range q.Ops[from:min(from+pieceReads, len(q.Ops))] {
				bytes += s.readBytes(op.Op, op.Path) + multiReadOverhead
			}
		}) {
			return
		}
	}
	switch {
	case bytes > s.opts.OutputBytesMax:
		t.refuse(zk.ErrMarshalling)
		return
	case !t.mayTake(bytes):
		return
	}
	for attempt := 0; ; attempt++ {
		if t.tryReads(q.Ops, bytes, attempt == listAttempts) {
			return
		}
	}
}

// tryReads answers a multiRead in pieces, or in one. It reports false if the client was sent an event between two of them.
func (t *turn) tryReads(ops []wire.MultiOp, bytes int, whole bool) (done bool) {
	s := t.c.s
	b, start := wire.BeginFrame(make([]byte, 0, bytes+answerOverhead))
	events, head := 0, len(b)
	for from, again := 0, false; !again; {
		if alive := t.piece(func() {
			if from == 0 {
				events = t.c.events
				b = t.h.AppendTo(b)
			}
			t.h.Zxid = s.tree.LastZxid()
			again = t.c.events != events
			if again {
				return
			}
			to, enough := min(from+pieceReads, len(ops)), len(b)+pieceBytes
			if whole {
				to, enough = len(ops), math.MaxInt
			}
			for ; from < to && len(b) < enough; from++ {
				b = t.appendRead(b, &ops[from])
			}
			if len(b) > s.opts.OutputBytesMax+answerOverhead {
				t.refuse(zk.ErrMarshalling)
				done = true
			} else if from == len(ops) {
				t.h.AppendTo(b[:head]) // with the zxid of this piece
				t.c.out.add(wire.EndFrame(wire.AppendMultiEnd(b), start))
				done = true
			}
		}); !alive || done {
			return true
		}
	}
	return false
}

// setWatchesInPieces is setWatches for any number of watches. Each watch is set in the same piece in which its znode is
// looked at.
func (t *turn) setWatchesInPieces() {
	q, ok := t.watchesToSet()
	if !ok {
		return
	}
	lists := []*[]string{&q.Data, &q.Exist, &q.Child, &q.Persistent, &q.Recursive}
	part := wire.SetWatchesRequest{RelativeZxid: q.RelativeZxid}
	parts := []*[]string{&part.Data, &part.Exist, &part.Child, &part.Persistent, &part.Recursive}
	for k, list := range lists {
		for rest := *list; len(rest) > 0; {
			n := min(pieceReads, len(rest))
			*parts[k] = rest[:n]
			rest = rest[n:]
			if !t.piece(func() { t.rearm(&part) }) {
				return
			}
		}
		*parts[k] = nil
	}
	t.c.out.reply(t.h)
}
