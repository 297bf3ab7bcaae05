package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A pipe is one direction of a connection. What has been written waits in segments until it is
// due and the way is free, and is then read in order.
type pipe struct {
	mu   sync.Mutex
	cond sync.Cond // anything below changed

	// Guarded by mu.
	segs     []segment
	buffered int   // bytes in segs
	err      error // cut
	finSent  bool  // the writer is done; the last segment is its fin, unless that was lost
	finRead  bool  // the reader has seen the end of the stream
	deaf     bool  // the reader is done
	rdl, wdl deadline

	latency time.Duration
	muted   bool
	lose    bool
	noReset bool // the reader's host cannot tell the writer that the reader is done
}

// A segment is a run of bytes with one time of arrival, or the end of the stream.
type segment struct {
	data []byte
	due  time.Time
	fin  bool
}

func newPipe() *pipe {
	p := new(pipe)
	p.cond.L = &p.mu
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.deaf:
			return 0, net.ErrClosed
		case p.err != nil:
			return 0, p.err
		case p.rdl.passed:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case p.finRead:
			return 0, io.EOF
		case len(p.segs) == 0 || p.muted || time.Now().Before(p.segs[0].due):
			p.cond.Wait()
		case p.segs[0].fin:
			p.finRead = true
		default:
			n := copy(b, p.segs[0].data)
			p.segs[0].data = p.segs[0].data[n:]
			if len(p.segs[0].data) == 0 {
				p.segs = p.segs[1:]
			}
			p.buffered -= n
			p.cond.Broadcast()
			return n, nil
		}
	}
}

func (p *pipe) write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.finSent:
			return n, net.ErrClosed
		case p.err != nil:
			return n, p.err
		case p.wdl.passed:
			return n, os.ErrDeadlineExceeded
		case len(b) == 0:
			return n, nil
		case p.lose:
			return n + len(b), nil
		case p.deaf && !p.noReset:
			return n, syscall.ECONNRESET
		case p.buffered >= bufferBytes:
			p.cond.Wait()
		default:
			k := min(len(b), bufferBytes-p.buffered)
			p.queue(segment{data: append([]byte(nil), b[:k]...)})
			p.buffered += k
			n, b = n+k, b[k:]
		}
	}
}

// queue appends a segment; mu is held.
func (p *pipe) queue(s segment) {
	s.due = time.Now().Add(p.latency)
	if k := len(p.segs); k > 0 && p.segs[k-1].due.After(s.due) {
		s.due = p.segs[k-1].due // the latency was lowered; nothing overtakes
	}
	p.segs = append(p.segs, s)
	if p.latency > 0 {
		time.AfterFunc(time.Until(s.due), p.wake)
	}
	p.cond.Broadcast()
}

func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cond.Broadcast()
}

func (p *pipe) closeWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finSent {
		return
	}
	p.finSent = true
	if !p.lose {
		p.queue(segment{fin: true})
	}
	p.cond.Broadcast()
}

func (p *pipe) closeRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
	p.segs, p.buffered = nil, 0
	p.rdl.stop()
	p.cond.Broadcast()
}

func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.segs, p.buffered = nil, 0
	p.rdl.stop()
	p.wdl.stop()
	p.cond.Broadcast()
}

// over reports whether nothing can travel here any more.
func (p *pipe) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil || p.finSent && (p.deaf || p.finRead)
}

// setFaults takes over those of the connection's faults that matter to a pipe going in direction d.
func (p *pipe) setFaults(f faults, d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency, p.muted, p.lose, p.noReset = f.latency, f.mute&d != 0, f.lose&d != 0, f.stopped()
	p.cond.Broadcast()
}

func (p *pipe) setReadDeadline(t time.Time)  { p.setDeadline(&p.rdl, t) }
func (p *pipe) setWriteDeadline(t time.Time) { p.setDeadline(&p.wdl, t) }

func (p *pipe) setDeadline(d *deadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.stop()
	d.passed = false
	switch wait := time.Until(t); {
	case t.IsZero() || p.err != nil:
	case wait <= 0:
		d.passed = true
	default:
		var timer *time.Timer
		timer = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if d.timer == timer { // else it was set anew meanwhile
				d.passed = true
				p.cond.Broadcast()
			}
		})
		d.timer = timer
	}
	p.cond.Broadcast()
}

// A deadline belongs to the mutex of its pipe.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}
