package lock

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
)

// An allAttempt takes the members of an All: those that can be asked for together at once, the others one after the other. It is
// used by one goroutine.
type allAttempt struct {
	members []member
	holds   [][]*Hold // of each member; nil if not yet

	ctx    context.Context // ends with the caller's, and with each of the holds; carries their heldChain
	cancel context.CancelCauseFunc
	stops  []func() bool
}

// takeMembers takes all members or none. If try is set, it does not wait. With an error it returns t, too, which has what had been
// taken.
func takeMembers(ctx context.Context, members []member, try bool) (t *allAttempt, err error) {
	t = &allAttempt{members: members, holds: make([][]*Hold, len(members))}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	all := false
	defer func() {
		for _, stop := range t.stops {
			stop()
		}
		t.cancel(nil)
		if !all { // or a function of the user's has panicked; deletions that ctx cuts short go on in the background
			releaseAll(ctx, slices.Concat(t.holds...))
		}
	}()
	rest, err := t.reenter(ctx, try)
	for _, i := range rest {
		t.ctx = members[i].lock.tellAsked(t.ctx)
	}
	for err == nil && len(rest) > 0 {
		var done int
		done, err = t.takeNext(rest, try)
		rest = rest[done:]
	}
	if lost := context.Cause(t.ctx); err != nil && ctx.Err() == nil && lost != nil && len(rest) > 0 { // one that we had
		m := members[rest[0]]
		err = &LockError{m.lock.op(try), m.lock.path, lost}
	}
	all = err == nil
	return t, err
}

// reenter takes what ctx says is held already, and returns the places of the other members.
func (t *allAttempt) reenter(ctx context.Context, try bool) (rest []int, err error) {
	for i, m := range t.members {
		h, err := m.lock.reenter(ctx, try)
		switch {
		case err != nil:
			return nil, err
		case h == nil:
			rest = append(rest, i)
		default:
			t.add(i, h)
		}
	}
	return rest, nil
}

// add notes holds of a member. If one of them ends, the way to the others is over.
func (t *allAttempt) add(i int, holds ...*Hold) {
	t.holds[i] = holds
	for _, h := range holds {
		t.ctx = h.g.withHold(t.ctx)
		t.stops = append(t.stops, context.AfterFunc(h.Context(), func() { t.cancel(h.Cause()) }))
	}
}

// takeNext takes the first member of rest, and those behind it that can be asked for in the same write. It returns for how many of
// them it has taken holds, in the order of paths. Before it waits for one of them, it gives up its places in the queues of those
// that come later, so that a waiter never stands in one of them.
func (t *allAttempt) takeNext(rest []int, try bool) (done int, err error) {
	if m := t.members[rest[0]]; m.isSeparate() {
		holds, err := m.from.takeHolds(t.ctx, m.count, try)
		if err != nil {
			return 0, err
		}
		t.add(rest[0], holds...)
		return 1, nil
	}
	if n := slices.IndexFunc(rest, func(i int) bool { return t.members[i].isSeparate() }); n > 0 {
		rest = rest[:n]
	}
	later := t.begin(rest, try)
	abandonLater := func() {
		for _, a := range later {
			a.abandon()
		}
		later = nil
	}
	defer abandonLater()
	for len(later) > 0 {
		a := later[0]
		later = later[1:]
		a.beforeWait = abandonLater
		holds, err := a.run(t.ctx)
		switch {
		case !try && a.lock.requeues(t.ctx, err): // it is asked for again, with those that come later
			abandonLater()
			for _, i := range rest[done:] {
				t.members[i].fair.cleaner.await(t.ctx) // or their old claims would be ahead of the new ones
			}
			return done, nil
		case err != nil:
			return done, a.lock.withOp(err, try)
		}
		t.add(rest[done], holds...)
		done++
	}
	return done, nil
}

// begin begins an attempt for each of several members, and sends what they ask for: in one write for each session. The one that
// has to wait will hold the claims of those before it by then, so its nodes name them.
func (t *allAttempt) begin(batch []int, try bool) []*attempt {
	attempts := make([]*attempt, len(batch))
	var earlier []string // hold ids
	writes := map[*client.Session]*client.Pipeline{}
	for k, i := range batch {
		m := t.members[i]
		if try {
			m.fair.cleaner.await(t.ctx)
		}
		attempts[k] = newAttempt(m.fair, m.count, try, m.lock.opt.claimRecord(t.ctx, try, earlier...))
		earlier = append(earlier, attempts[k].id.HoldID(m.lock.dir))
		if writes[m.lock.s] == nil {
			writes[m.lock.s] = m.lock.s.Pipeline()
		}
		attempts[k].addTo(writes[m.lock.s])
	}
	for _, p := range writes {
		p.Send(t.ctx)
	}
	return attempts
}
