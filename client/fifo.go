package client

// A fifo is a line of calls.
type fifo struct {
	calls []*call
	head  int
}

func (f *fifo) push(k *call) { f.calls = append(f.calls, k) }

// peek returns the oldest call, nil if there is none.
func (f *fifo) peek() *call {
	if f.head == len(f.calls) {
		return nil
	}
	return f.calls[f.head]
}

// pop takes the oldest call out of the line, nil if there is none.
func (f *fifo) pop() *call {
	if f.head == len(f.calls) {
		return nil
	}
	k := f.calls[f.head]
	f.calls[f.head] = nil
	f.head++
	if f.head == len(f.calls) {
		f.calls, f.head = f.calls[:0], 0
	} else if f.head > 1024 && f.head > len(f.calls)/2 {
		n := copy(f.calls, f.calls[f.head:])
		clear(f.calls[n:])
		f.calls, f.head = f.calls[:n], 0
	}
	return k
}
