package server

import (
	"bytes"
	"net"
	"testing"

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
