package server

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// Sizes of an output's buffers, in bytes.
const (
	outputFlush = 64 << 10  // a reader that answers on its own goroutine flushes beyond it
	directBytes = 4 << 10   // no more is sent by the committer itself
	outputKeep  = 64 << 10  // a larger buffer is not kept once it is empty
	outputLeft  = 128 << 10 // more is left to run: a slow peer must not keep the reader from the peer's pings
	writeStep   = 256 << 10 // is written at a time, so that it shows whether the peer takes anything
)

// An output is what a connection still has to send: answers and events in the order in which they
// must leave, and the count of the requests that still have to be committed and
// answered. Adding to it never waits for the peer: what the peer does not take piles up to a
// limit, and then the connection is broken.
//
// The output's own goroutine (run) writes to the socket, unless the goroutine that has something for the peer does: the connection's
// reader (write), or the committer as far as that never waits (sendNow). That saves waking another one. The flag writing decides.
type output struct {
	nc       net.Conn
	direct   directWriter
	bytesMax int
	all      *throttle // shared by all connections
	answers  *budget   // likewise
	taken    func()    // is called when the peer has taken some of a large output

	// pending counts the requests put into the queue and not yet answered. Only the
	// connection's reader raises it; where it reads 0, the reader has the turn.
	pending atomic.Int32

	mu   sync.Mutex // innermost: nothing else is locked under it
	wake sync.Cond  // for run: buf, writing or closing changed
	room sync.Cond  // for the reader: pending, buf, sending or closing changed

	// Guarded by mu. What waits is parts and buf behind them. Messages gather in buf until it is long; it is not copied then, nor
	// is a large answer, because they are added while Server.state is locked.
	parts        [][]byte
	partsBytes   int
	buf          []byte
	spare        []byte
	pendingBytes int
	writing      bool
	closing      bool      // nothing is added any more; what is there goes out
	broken       bool      // nothing goes out any more
	greedy       bool      // broken because it held too much while the memory for answers was used up
	cutOffAt     int64     // bytes that it held then
	sending      int       // bytes being written
	counted      int       // bytes that answers has counted
	progress     time.Time // when the peer has last taken something, while something is being written
}

func newOutput(nc net.Conn, bytesMax int, all *throttle, answers *budget) *output {
	o := &output{nc: nc, direct: newDirectWriter(nc), bytesMax: bytesMax, all: all, answers: answers}
	o.wake.L, o.room.L = &o.mu, &o.mu
	return o
}

// begin locks the output and begins a message. The caller appends its record to b and calls end.
func (o *output) begin(h wire.ReplyHeader) (b []byte, start int) {
	b, start = o.beginBare()
	return h.AppendTo(b), start
}

// beginBare is begin for the one message without a header.
func (o *output) beginBare() (b []byte, start int) {
	o.mu.Lock()
	if len(o.buf) > writeStep {
		o.closeBufLocked()
	}
	return wire.BeginFrame(o.buf)
}

// closeBufLocked makes a part of what is in buf.
func (o *output) closeBufLocked() {
	if len(o.buf) > 0 {
		o.putLocked(o.buf)
		o.buf = nil
	}
}

func (o *output) putLocked(part []byte) {
	o.parts = append(o.parts, part)
	o.partsBytes += len(part)
}

// waitingLocked returns how many bytes wait.
func (o *output) waitingLocked() int { return o.partsBytes + len(o.buf) }

// dropLocked drops what waits.
func (o *output) dropLocked() { o.parts, o.partsBytes, o.buf = nil, 0, nil }

// end completes the message and unlocks. What was added leaves with the next flush.
func (o *output) end(b []byte, start int) {
	if o.closing || o.broken {
		b = o.buf
	} else {
		b = wire.EndFrame(b, start)
	}
	o.buf = b
	o.checkLocked(o.partsBytes + start)
	if o.counted > largeAnswerBytes && o.answers.farOver() {
		o.broken, o.greedy, o.cutOffAt = true, true, int64(o.counted)
		o.dropLocked()
		o.recountLocked()
	}
	o.mu.Unlock()
}

// add adds a whole message in its frame, which the output keeps if it is large. The bytes must have been reserved.
func (o *output) add(frame []byte) {
	if len(frame) <= largeAnswerBytes {
		b, start := o.beginBare()
		o.end(append(b, frame[4:]...), start) // behind its length
		return
	}
	if cap(frame) > 2*len(frame) {
		frame = bytes.Clone(frame) // what is counted is its length
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.waitingLocked()
	if !o.closing && !o.broken {
		o.closeBufLocked()
		o.putLocked(frame)
	}
	o.checkLocked(before)
}

// checkLocked breaks the connection if so much waited before a message: the message itself may be as long as it needs to be.
func (o *output) checkLocked(before int) {
	if before > o.bytesMax {
		o.broken = true
		o.dropLocked()
	}
	o.recountLocked()
}

// recountLocked tells the budget what the output holds. A little is not counted.
func (o *output) recountLocked() {
	held := o.waitingLocked() + o.sending
	if held <= uncountedBytes {
		held = 0
	}
	if o.counted == 0 && held > 0 {
		o.progress = time.Now()
	}
	if held != o.counted {
		o.answers.add(int64(held - o.counted))
		o.counted = held
	}
}

// stall returns how many bytes wait for the peer, and for how long it has taken none of them.
func (o *output) stall(now time.Time) (held int64, since time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending == 0 || o.broken {
		return 0, 0
	}
	return int64(o.counted), now.Sub(o.progress)
}

// cancel unlocks without adding the message that was begun.
func (o *output) cancel() { o.mu.Unlock() }

// reply adds an answer that has no record.
func (o *output) reply(h wire.ReplyHeader) { o.end(o.begin(h)) }

// noteAnswer notes that a request of so many bytes, put into the queue, is done with.
func (o *output) noteAnswer(bytes int) {
	o.all.add(-1, -bytes)
	o.mu.Lock()
	o.pendingBytes -= bytes
	o.pending.Add(-1)
	o.room.Signal()
	o.mu.Unlock()
}

// full reports whether this or all connections have as many requests in the queue as they may, unless this
// one has none, or this one as many answers as may wait to leave.
func (o *output) full(pendingMax int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fullLocked(pendingMax)
}

func (o *output) fullLocked(pendingMax int) bool {
	if o.closing || o.broken {
		return false
	}
	pending := int(o.pending.Load())
	return o.muchLocked() || pending > 0 &&
		(pending >= pendingMax || o.pendingBytes > min(outstandingBytesMax, o.bytesMax/4) || o.all.full())
}

// muchLocked reports whether so much waits to leave that the client must not be read from.
func (o *output) muchLocked() bool {
	return o.waitingLocked() > o.bytesMax/2 || o.waitingLocked() > largeAnswerBytes && o.answers.isUsedUp()
}

// awaitRoom waits while the output is full.
func (o *output) awaitRoom(pendingMax int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.fullLocked(pendingMax) {
		o.room.Wait()
	}
}

// count counts a request that is going to be committed. It reports false, and does nothing, if the output
// is closing.
func (o *output) count(bytes int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing || o.broken {
		return false
	}
	o.all.add(1, bytes)
	o.pendingBytes += bytes
	o.pending.Add(1)
	return true
}

// drain waits until all requests in the queue are answered.
func (o *output) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closing && !o.broken && o.pending.Load() > 0 {
		o.room.Wait()
	}
}

// sendNow sends what was added, if it is little, as far as the peer's socket takes it without waiting, so mu may be locked
// meanwhile. What is left needs flush.
func (o *output) sendNow() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing || o.broken || len(o.parts) > 0 || len(o.buf) > directBytes {
		return
	}
	o.buf = slices.Delete(o.buf, 0, o.direct.write(o.buf))
	o.recountLocked()
	o.room.Signal()
}

// flush makes what was added leave by way of run, or breaks the connection if there is too much.
func (o *output) flush() {
	o.mu.Lock()
	broken := o.broken
	if !o.writing && o.waitingLocked() > 0 {
		o.wake.Signal()
	}
	o.mu.Unlock()
	if broken {
		o.hangUp()
	}
}

// sendsMuch reports whether so much is being sent that finish would leave little time for it.
func (o *output) sendsMuch() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sending > outputLeft
}

// awaitSent waits while much is being sent.
func (o *output) awaitSent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.sending > outputLeft && !o.closing && !o.broken {
		o.room.Wait()
	}
}

// write sends what was added on the reader's goroutine, unless there is much: then run sends it, and write returns when run
// has begun. If run is sending already, write waits for it only if there is too much.
func (o *output) write() {
	o.mu.Lock()
	for o.leaveLocked() && !o.closing && !o.broken {
		o.room.Wait()
	}
	if !o.writing {
		o.writeLocked()
	}
	broken := o.broken
	o.mu.Unlock()
	if broken {
		o.hangUp()
	}
}

// leaveLocked reports whether the reader has to wait for run, which it wakes if need be.
func (o *output) leaveLocked() bool {
	if o.writing {
		return o.muchLocked()
	}
	if o.waitingLocked() <= outputLeft {
		return false
	}
	o.wake.Signal()
	return true
}

// writeLocked sends the buffer, without the mutex, as the only writer.
func (o *output) writeLocked() {
	if o.waitingLocked() == 0 || o.broken {
		return
	}
	parts, b := o.parts, o.buf
	o.sending = o.waitingLocked()
	o.dropLocked()
	o.buf, o.spare, o.writing = o.spare[:0], nil, true
	if o.sending > uncountedBytes { // for less it does not matter
		o.progress = time.Now()
	}
	o.room.Signal()
	sent, err := 0, error(nil)
	for k := 0; k <= len(parts); k++ {
		rest := b
		if k < len(parts) {
			rest, parts[k] = parts[k], nil
		}
		for len(rest) > 0 && err == nil && !o.broken {
			n := min(len(rest), writeStep)
			o.mu.Unlock()
			_, err = o.nc.Write(rest[:n])
			rest, sent = rest[n:], sent+n
			if o.sending > outputLeft && err == nil {
				o.taken()
			}
			o.mu.Lock()
			if sent < o.sending {
				o.progress = time.Now()
			}
		}
	}
	much := o.sending > outputLeft
	o.writing, o.sending = false, 0
	if err != nil { // what was added meanwhile will not leave, and nothing else may look at it again
		o.broken = true
		o.dropLocked()
	}
	if much || err != nil {
		o.room.Signal()
	}
	o.recountLocked()
	if cap(b) <= outputKeep {
		o.spare = b
	}
	if o.waitingLocked() > 0 || o.closing || o.broken {
		o.wake.Signal()
	}
}

// finish ends the output in good order: what is in it goes out, for as long as lingerTimeout, and
// then the sending side is closed.
func (o *output) finish() {
	o.mu.Lock()
	o.closing = true
	o.wake.Signal()
	o.room.Broadcast()
	o.mu.Unlock()
	o.nc.SetWriteDeadline(time.Now().Add(lingerTimeout))
}

// size returns how many bytes wait.
func (o *output) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waitingLocked()
}

// isClosed reports whether finish or hangUp was called.
func (o *output) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closing || o.broken
}

// cutOff reports whether the output was broken because it held too much, and how many bytes.
func (o *output) cutOff() (held int64, greedy bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cutOffAt, o.greedy
}

// giveUp breaks the connection instead of adding an answer of so many bytes. The next flush hangs up.
func (o *output) giveUp(bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broken, o.greedy, o.cutOffAt = true, true, int64(o.waitingLocked()+bytes)
	o.dropLocked()
	o.recountLocked()
}

// hangUp ends the output at once.
func (o *output) hangUp() {
	o.mu.Lock()
	o.broken = true
	o.dropLocked()
	o.recountLocked()
	o.wake.Signal()
	o.room.Broadcast()
	o.mu.Unlock()
	raw := o.nc
	if wrapped, ok := raw.(interface{ NetConn() net.Conn }); ok {
		raw = wrapped.NetConn() // TLS would wait for the peer to take its farewell
	}
	raw.Close()
}

// run sends what flush was called for until the output ends. After finish it half-closes the
// connection, so that the peer gets all of it even if it has sent what the server has not read, and leaves
// the reader lingerTimeout to see the peer's end.
func (o *output) run() {
	o.mu.Lock()
	for !o.broken && (o.waitingLocked() > 0 || o.writing || !o.closing) {
		if o.waitingLocked() == 0 || o.writing {
			o.wake.Wait()
			continue
		}
		o.writeLocked()
	}
	broken := o.broken
	o.mu.Unlock()
	if half, ok := o.nc.(interface{ CloseWrite() error }); ok && !broken && half.CloseWrite() == nil {
		o.nc.SetReadDeadline(time.Now().Add(lingerTimeout))
		return
	}
	o.nc.Close()
}
