package server

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// What waits is not copied when more comes behind it, because messages are added while the state is locked; and all of it
// leaves, in order.
func TestWhatWaitsIsNotCopied(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	o := newOutput(near, 64<<20, new(throttle), newBudget(64<<20))
	o.taken = func() {}
	var want []byte
	small := func() {
		b, start := o.beginBare()
		b = wire.AppendBuffer(b, make([]byte, 100))
		o.end(b, start)
		want = append(append(want, 0, 0, 0, 104, 0, 0, 0, 100), make([]byte, 100)...)
	}
	var frames [][]byte
	large := func(fill byte) {
		b, start := wire.BeginFrame(nil)
		frame := wire.EndFrame(append(b, bytes.Repeat([]byte{fill}, 1<<20)...), start)
		frames = append(frames, frame)
		want = append(want, frame...)
		o.add(frame)
	}
	small()
	large('a')
	large('b')
	for range 2 * writeStep / 100 {
		small()
	}
	for i, frame := range frames {
		if kept := o.parts[1+i]; &kept[0] != &frame[0] {
			t.Errorf("large message %d was copied", i)
		}
	}
	if longest := cap(o.buf); longest > 3*writeStep {
		t.Errorf("small messages gather in a buffer of %d bytes", longest)
	}
	if o.size() != len(want) || o.counted != len(want) {
		t.Errorf("%d bytes wait and %d are counted, want %d", o.size(), o.counted, len(want))
	}
	go func() {
		o.finish()
		o.run()
	}()
	var got bytes.Buffer
	got.ReadFrom(far)
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes left, not those that were added (%d)", got.Len(), len(want))
	}
	if o.counted != 0 {
		t.Errorf("%d bytes are counted in the end", o.counted)
	}
}

// What lies in parts counts against the limit of an output, and is let go and uncounted when the output breaks, also in the
// middle of a write.
func TestAnOutputThatBreaksHoldsNothing(t *testing.T) {
	const limit = 8 << 20
	frame := func() []byte {
		b, start := wire.BeginFrame(nil)
		return wire.EndFrame(append(b, make([]byte, 1<<20)...), start)
	}
	small := func(o *output) { o.reply(wire.ReplyHeader{}) }
	for name, breakIt := range map[string]func(*output){
		"add": func(o *output) {
			for range 10 {
				o.add(frame())
			}
		},
		"end": func(o *output) {
			for range limit >> 20 { // the last of them goes beyond the limit
				o.add(frame())
			}
			small(o)
		},
		"small": func(o *output) {
			for !o.isClosed() && o.size() <= 2*limit {
				small(o)
			}
		},
		"give up": func(o *output) {
			o.add(frame())
			o.giveUp(1)
			if held, greedy := o.cutOff(); held < 1<<20 || !greedy {
				t.Errorf("given up with %d bytes, %v", held, greedy)
			}
		},
		"farOver": func(o *output) {
			o.add(frame())
			o.answers.add(limit * 8)
			small(o)
			o.answers.add(-limit * 8)
		},
		"hang up": func(o *output) {
			o.add(frame())
			o.hangUp()
		},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			o := newOutput(near, limit, new(throttle), newBudget(4*limit))
			o.taken = func() {}
			small(o)
			o.add(frame())
			small(o)
			o.add(frame())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				o.run()
			}()
			if _, err := far.Read(make([]byte, 1)); err != nil { // the first of several parts is being written
				t.Fatal(err)
			}
			if used := o.answers.used.Load(); used < 2<<20 {
				t.Errorf("%d bytes are counted while they are written", used)
			}
			if o.full(1) {
				t.Error("full")
			}
			if name == "add" { // muchLocked sees what lies in parts
				for range limit/2>>20 + 1 {
					o.add(frame())
				}
				if !o.full(1) {
					t.Error("not full")
				}
			}
			breakIt(o)
			if !o.isClosed() {
				t.Fatalf("not broken with %d bytes", o.size())
			}
			if o.size() != 0 || o.parts != nil {
				t.Errorf("holds %d bytes in %d parts", o.size(), len(o.parts))
			}
			small(o)
			o.add(frame())
			o.flush()
			<-ended
			if used := o.answers.used.Load(); used != 0 || o.size() != 0 || o.counted != 0 {
				t.Errorf("%d bytes are counted in the end, %d by itself, and %d wait", used, o.counted, o.size())
			}
		})
	}
}

// An output whose write fails holds nothing either, and no byte of it stays in the budget, though nothing comes to it any more: its
// client has died, or takes nothing until the output ends.
func TestAnOutputWhoseWriteFailsHoldsNothing(t *testing.T) {
	for name, fail := range map[string]func(far net.Conn, o *output){
		"the peer hangs up":       func(far net.Conn, _ *output) { far.Close() },
		"the peer takes nothing":  func(_ net.Conn, o *output) { o.finish() },
		"the connection is reset": func(_ net.Conn, o *output) { o.nc.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				o := newOutput(near, 8<<20, new(throttle), newBudget(64<<20))
				o.taken = func() {}
				frame := func() []byte {
					b, start := wire.BeginFrame(nil)
					return wire.EndFrame(append(b, make([]byte, 1<<20)...), start)
				}
				o.add(frame())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					o.run()
				}()
				if _, err := far.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				o.add(frame()) // while the first one is being written
				o.reply(wire.ReplyHeader{})
				fail(far, o)
				<-ended
				if used := o.answers.used.Load(); used != 0 || o.size() != 0 || o.counted != 0 {
					t.Errorf("%d bytes are counted in the end, %d by itself, and %d wait", used, o.counted, o.size())
				}
			})
		})
	}
}

// Once an output is closing it takes nothing more, and what lies in its parts goes out.
func TestAClosingOutputTakesNothing(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	o := newOutput(near, 8<<20, new(throttle), newBudget(8<<20))
	o.taken = func() {}
	b, start := wire.BeginFrame(nil)
	frame := wire.EndFrame(append(b, make([]byte, 1<<20)...), start)
	o.add(frame)
	for o.size() < 2<<20 {
		o.reply(wire.ReplyHeader{})
	}
	want := o.size()
	o.finish()
	o.add(bytes.Clone(frame))
	o.reply(wire.ReplyHeader{})
	go o.run()
	if got, err := io.Copy(io.Discard, far); int(got) != want || err != nil {
		t.Errorf("%d bytes left, %v, want %d", got, err, want)
	}
	if used := o.answers.used.Load(); used != 0 {
		t.Errorf("%d bytes are counted in the end", used)
	}
}

// What is sent at once does not wait for the peer: what the socket has no room for is left to run, and all of it leaves in order.
func TestWhatIsSentAtOnceDoesNotWait(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	pipe, farPipe := net.Pipe() // has no socket, as TLS has none that may be written to
	defer farPipe.Close()
	for name, ends := range map[string][2]net.Conn{"a socket": {near, far}, "none": {pipe, farPipe}} {
		t.Run(name, func(t *testing.T) {
			o := newOutput(ends[0], 8<<20, new(throttle), newBudget(8<<20))
			var want []byte
			message := func() {
				h := wire.ReplyHeader{Xid: int32(len(want))}
				b, start := wire.BeginFrame(want)
				want = wire.EndFrame(h.AppendTo(b), start)
				o.reply(h)
			}
			for o.size() == 0 && len(want) < 32<<20 { // the peer does not read
				message()
				o.sendNow()
			}
			if left, first := o.size(), len(want); name == "none" && left != first || name != "none" && left == first {
				t.Errorf("%d of %d bytes are left", left, first)
			}
			message()
			o.sendNow()
			go o.run()
			o.flush()
			o.finish()
			got, err := io.ReadAll(ends[1])
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes have left, %v, not those that were added (%d)", len(got), err, len(want))
			}
		})
	}
}
