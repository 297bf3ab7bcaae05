package chaos

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// forever is the time at which an operation returns whose answer was not heard.
const forever = math.MaxInt64

// A hold is one that a client had.
type hold struct {
	client int
	key    string
	token  int64

	asked, granted int64 // around the grant
	alive          int64 // it was certainly valid from granted until here, unless that is earlier
	over           int64 // and over by then; forever if no event says so
	lost           bool
}

// An operation is one on the register.
type operation struct {
	client       int
	key          string
	token        int64
	kind         kind // read or write
	value, base  int64
	call, answer int64 // forever if there was none
	stale        bool
}

// A history is what all clients did.
type history struct {
	holds      []hold
	operations []operation
	failures   map[string]int // texts
}

// add takes in the events of one client, in the order in which it wrote them.
func (h *history) add(client int, events []event) {
	current := map[string]int{} // hold by key and token
	pending := map[string]int{} // operation
	name := func(e event) string { return fmt.Sprintf("%s %d", e.Key, e.Token) }
	for _, e := range events {
		n := name(e)
		if i, ok := current[n]; ok {
			h.holds[i].alive = max(h.holds[i].alive, e.Alive)
		}
		switch e.Kind {
		case granted:
			current[n] = len(h.holds)
			h.holds = append(h.holds, hold{client: client, key: e.Key, token: e.Token, asked: e.Call, granted: e.At, over: forever})
		case ended:
			h.holds[current[n]].over, h.holds[current[n]].lost = e.At, e.Lost
		case read, write:
			pending[n] = len(h.operations)
			h.operations = append(h.operations, operation{client: client, key: e.Key, token: e.Token, kind: e.Kind,
				value: e.Value, base: e.Base, call: e.At, answer: forever})
		case did:
			o := &h.operations[pending[n]]
			o.answer, o.stale = e.At, e.Stale
			if o.kind == read {
				o.value = e.Value
			}
		case failed:
			if h.failures == nil {
				h.failures = map[string]int{}
			}
			h.failures[e.Text]++
		}
	}
}

// An overlap is a time in which two holds of one lock were valid.
type overlap struct {
	first, second hold
	length        time.Duration
}

func (o overlap) String() string {
	return fmt.Sprintf("%s: the hold with token %#x was valid for %v beside the one with token %#x", o.first.key, o.first.token, o.length, o.second.token)
}

// overlaps returns the times in which two holds of one lock were certainly valid.
func (h *history) overlaps() []overlap {
	certain := slices.DeleteFunc(slices.Clone(h.holds), func(h hold) bool { return h.alive < h.granted })
	slices.SortFunc(certain, func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.granted, b.granted))
	})
	var found []overlap
	var longest hold // of those so far with this key, the one that was valid last
	for _, h := range certain {
		if h.key == longest.key && h.granted < longest.alive {
			found = append(found, overlap{longest, h, time.Duration(min(longest.alive, h.alive) - h.granted)})
		}
		if h.key != longest.key || h.alive > longest.alive {
			longest = h
		}
	}
	return found
}

// A lockState is that of the lock as a sequential machine.
type lockState struct{ holder, newest int64 }

// A lockInput grants the lock with a token, or ends the hold.
type lockInput struct {
	end   bool
	token int64
}

// lockModel is the lock with tokens: it is granted to one at a time, and tokens grow.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(lockInput)
		if in.end {
			return s.holder == in.token, lockState{0, s.newest}
		}
		return s.holder == 0 && in.token > s.newest, lockState{in.token, in.token}
	},
	DescribeOperation: func(input, _ any) string {
		if in := input.(lockInput); in.end {
			return fmt.Sprintf("end of %#x", in.token)
		}
		return fmt.Sprintf("grant of %#x", input.(lockInput).token)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("held with %#x", state.(lockState).holder) },
}

// locks returns the operations on the locks, by key. A hold that was not seen to be valid once it had been granted may have ended at
// any time since it was asked for: a process that is frozen before Lock returns learns of its hold when that is over.
func (h *history) locks() map[string][]porcupine.Operation {
	ops := map[string][]porcupine.Operation{}
	for _, h := range h.holds {
		certain := h.asked
		if h.alive >= h.granted {
			certain = h.alive
		}
		ops[h.key] = append(ops[h.key],
			porcupine.Operation{ClientId: h.client, Input: lockInput{false, h.token}, Call: h.asked, Return: h.granted},
			porcupine.Operation{ClientId: h.client, Input: lockInput{true, h.token}, Call: certain, Return: max(h.granted, h.over)})
	}
	return ops
}

// A registerState is that of the register as a sequential machine.
type registerState struct{ value, newest int64 }

// registerModel is a register that refuses older tokens. A writer has read before, under the same
// token, so what is there must be what was read: otherwise an update is lost.
var registerModel = porcupine.Model{
	Init: func() any { return registerState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(registerState), input.(operation)
		refused, unknown := in.token < s.newest, in.answer == forever
		switch {
		case refused:
			return in.stale || unknown, s
		case in.stale:
			return false, s
		case in.kind == read:
			return unknown || in.value == s.value, registerState{s.value, in.token}
		default:
			return unknown || in.base == s.value, registerState{in.value, in.token}
		}
	},
	DescribeOperation: func(input, _ any) string {
		in := input.(operation)
		text := fmt.Sprintf("%s %#x with %#x", in.kind, in.value, in.token)
		switch {
		case in.stale:
			text += ": stale"
		case in.answer == forever:
			text += ": no answer"
		}
		return text
	},
	DescribeState: func(state any) string {
		s := state.(registerState)
		return fmt.Sprintf("%#x by %#x", s.value, s.newest)
	},
}

// registers returns the operations on the register, by key.
func (h *history) registers() map[string][]porcupine.Operation {
	ops := map[string][]porcupine.Operation{}
	for _, o := range h.operations {
		ops[o.key] = append(ops[o.key], porcupine.Operation{ClientId: o.client, Input: o, Call: o.call, Return: o.answer})
	}
	return ops
}

// gaps returns the longest time between from and to in which a lock was not granted, over all the
// locks that keyOf names alike.
func (h *history) longestGap(from, to int64, keyOf func(string) string) time.Duration {
	times := map[string][]int64{}
	for _, h := range h.holds {
		times[keyOf(h.key)] = append(times[keyOf(h.key)], h.granted)
	}
	var longest int64
	for _, all := range times {
		last := from
		slices.Sort(all)
		for _, t := range append(all, to) {
			longest = max(longest, t-last)
			last = max(last, t)
		}
	}
	return time.Duration(longest)
}
