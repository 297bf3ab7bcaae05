// Package engine is the process behind a running lock: it keeps the session and holds the lock while
// the front, which has started it, looks after the child.
//
// Guarantees:
//
//  1. The cell never holds a deadline later than the one the lock library vouches for.
//  2. The lock is given back only when the front says that the child is gone or was never started, or
//     when the front is dead and what worked under the lock is gone: for the guard, which kills it, and
//     for the engine, which helps. What cannot be killed keeps the lock.
//  3. If the lock is gone, the guard hears of it, whatever the front does; and if what works under the
//     lock is not dead when it has to be, the engine kills it.
//  4. It never waits for the front: a front that is stopped for a day costs neither a heartbeat nor
//     memory.
//
// What works under the lock is, to the engine, which is not its ancestor, the child's process group and
// (on Linux) all processes that carry the lock's variables in their environment; and the process of Open.Watched.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Limits.
const (
	releaseLimit     = 5 * time.Second       // to give the lock back
	lostReleaseLimit = time.Second           // the same when it was lost anyway
	headStart        = 20 * time.Millisecond // for the others to kill the child themselves
	refreshPerTerm   = 30                    // how often in a session timeout the cell is brought up to date
	refreshMin       = 5 * time.Millisecond

	// ordersMax is how many orders there can be: to open, that the child has started, and to end.
	ordersMax = 4
)

// Connect opens the session for an order. The servers it returns are those that the child is told;
// with notice it can tell the user something.
type Connect func(ctx context.Context, o link.Open, notice func(string)) (s *client.Session, servers string, err error)

// An engine is the state of the process. The goroutine of Run owns it.
type engine struct {
	connect Connect
	orders  <-chan link.Order // closed when the front is dead
	notes   *outbox
	cell    *link.Cell
	guard   Guard
	parent  int             // the guard's process id; 0 before the front has told us
	swept   <-chan struct{} // closed when the guard is gone
	open    link.Open
	workers workers

	session *client.Session
	hold    hold
	plan    link.Plan
	cutOff  string // why the session has no connection, as the front has been told; empty if it has one
}

// A Guard is the engine's ends of the pipes between it and the guard; see link.GuardFDs.
type Guard struct {
	Swept   io.Reader
	Condemn io.Writer
}

// Run serves one front, and returns when there is nothing left to do for it.
//
// Processes that spare accepts are never ended.
func Run(orders io.Reader, notes io.Writer, cell *link.Cell, guard Guard, connect Connect, spare func(proc.Process) bool) {
	in := make(chan link.Order, ordersMax)
	go func() { // ends with the front, or with the process
		defer close(in)
		link.Receive(orders, func(o link.Order) { in <- o })
	}()
	swept := make(chan struct{})
	go func() { // ends with the guard, or with the process
		defer close(swept)
		io.Copy(io.Discard, guard.Swept)
	}()
	e := &engine{connect: connect, orders: in, notes: newOutbox(link.NewWriter(notes)), cell: cell, guard: guard, swept: swept}
	e.workers.spare = spare
	if self, err := proc.Find(os.Getpid()); err == nil {
		e.workers.since = self.Start
	}
	defer e.notes.close()
	first, ok := <-in
	if !ok || first.Do != link.DoOpen || first.Open == nil {
		return
	}
	e.open = *first.Open
	e.run()
}

func (e *engine) run() {
	servers, err := e.get()
	defer e.leave()
	if err != nil {
		e.notes.send(e.refusal(err))
		return
	}
	e.refresh()
	granted := link.Note{Is: link.IsGranted, Token: e.hold.Token(), Timeout: e.session.Timeout(), Servers: servers}
	switch h := e.hold.(type) {
	case *together:
		granted.Tokens, granted.Claims = h.tokens(e.open.Also), h.nodes(e.open)
	case interface{ Node() string }:
		granted.Claims = []string{h.Node()}
	}
	e.workers.env, e.workers.watched, e.workers.aware = link.LockEnv(e.open, granted), e.open.Watched, e.cell.Aware
	e.notes.send(granted)
	lost := e.keep()
	limit := releaseLimit
	if lost {
		limit = lostReleaseLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// The end of the session frees the lock, and in one write.
	note := link.Note{Is: link.IsReleased}
	if err := e.session.Close(ctx); err != nil && !lost {
		note.Text = fmt.Sprintf("could not make sure that %s is free again: %v", e.names(), err)
	}
	e.notes.send(note)
}

// leaveLimit bounds the end of a session without a connection: its znode in the queue goes then when the session expires.
const leaveLimit = 300 * time.Millisecond

// leave ends the session, if it has not ended. While there is no server, the user is not kept waiting for one.
func (e *engine) leave() {
	if e.session == nil {
		return
	}
	ctx := context.Background()
	if st, _ := e.session.State(); st.Phase == client.Disconnected {
		short, cancel := context.WithTimeout(ctx, leaveLimit)
		defer cancel()
		ctx = short
	}
	e.session.Close(ctx)
}

// errCancelled says that the front does not want the lock any more.
var errCancelled = errors.New("cancelled")

// get waits for the lock, and gives up when the front says so or dies.
func (e *engine) get() (servers string, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		servers, err = e.acquire(ctx)
	}()
	select {
	case <-done:
	case <-e.orders: // to cancel, or the end of the front
		cancel(errCancelled)
		<-done
		return "", errCancelled // also if the lock was granted in this moment
	}
	cancel(nil)
	return servers, err
}

// acquire opens a session and waits for the lock. A session that expires in line is replaced by
// another, at the end of the line.
func (e *engine) acquire(ctx context.Context) (servers string, err error) {
	waiting := ctx
	for {
		if e.session, servers, err = e.dial(ctx); err != nil {
			return "", err
		}
		if e.open.Wait > 0 && waiting == ctx { // what it took to find a server is not waiting for the lock
			var cancel context.CancelFunc
			waiting, cancel = context.WithTimeoutCause(ctx, e.open.Wait, errWaitOver)
			defer cancel()
		}
		if e.plan, err = link.NewPlan(e.session.Timeout(), e.open.Grace); err != nil {
			return "", exit.Errorf(exit.Usage, "%s grants a session timeout of %v: %w", servers, e.session.Timeout(), err)
		}
		err = e.line(waiting)
		if !errors.Is(err, zk.ErrSessionExpired) || waiting.Err() != nil {
			return servers, err
		}
		if !e.open.Access.Quiet {
			e.notes.send(link.Note{Is: link.IsNotice, Text: "the session expired while waiting; back to the end of the line"})
		}
		e.session.Close(ctx)
	}
}

// dial opens a session, within the time for that.
func (e *engine) dial(ctx context.Context) (*client.Session, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.open.ConnectTimeout, fmt.Errorf("%w within %v", errNoAnswer, e.open.ConnectTimeout))
	defer cancel()
	return e.connect(ctx, e.open, func(text string) { e.notes.send(link.Note{Is: link.IsNotice, Text: text}) })
}

// errWaitOver says that the wait had a limit and has reached it.
var errWaitOver = errors.New("the wait is over")

// line stands in line until the lock is held.
func (e *engine) line(ctx context.Context) error {
	vouch, err := ParseVouch(e.open.Vouch)
	if err != nil {
		return err
	}
	look, stop := context.WithCancel(ctx)
	defer stop()
	ctx, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	w := &watcher{refuse: refuse, session: e.session, notes: e.notes, report: e.open.Report, under: e.open.Claims, slots: max(e.open.Slots, 1)}
	acl := e.open.Access.MadeACL()
	opt := lock.Options{ACL: acl, ParentACL: acl, Label: e.open.Label, Vouch: vouch, Requeue: true}
	opt = bridge.OnBehalf(opt, e.open.PID, e.open.User, e.open.Claims)
	if w.report || len(w.under) > 0 {
		opt.Hooks.Waiting = w.start(look)
		defer func() { stop(); w.wg.Wait() }()
	}
	if w.report {
		w.wg.Go(func() { w.tellConnection(look) })
	}
	enter, try, err := e.entries(opt)
	if err != nil {
		return exit.Errorf(exit.Usage, "%w", err)
	}
	if e.open.Wait == 0 {
		ctx, cancel := context.WithTimeoutCause(ctx, e.open.ConnectTimeout, fmt.Errorf("%w within %v", errNoAnswer, e.open.ConnectTimeout))
		defer cancel()
		e.hold, err = try(ctx)
		return err
	}
	e.hold, err = enter(ctx)
	var own *ownLockError
	if err != nil && errors.As(context.Cause(ctx), &own) {
		return own
	}
	return err
}

// An ownLockError refuses a wait for a lock that is held by a run under which this one was started. That run
// ends after this one, so the wait would not end.
type ownLockError struct{ path string }

func (e *ownLockError) Error() string {
	return fmt.Sprintf("lock %s is held by the lockkeeper that has started this one, directly or through others, and free only when that ends (run the command without another lockkeeper run, or name another lock)", e.path)
}

// isOwn reports whether the holder that was found is a run under which this one was started.
func (e *engine) isOwn(busy *lock.BusyError) bool {
	return e.open.Slots <= 1 && slices.Contains(e.open.Claims, busy.Holder.Node)
}

// ParseVouch reads the name of a level of vouching.
func ParseVouch(name string) (client.Vouch, error) {
	for _, v := range []client.Vouch{client.VouchPing, client.VouchSync, client.VouchWrite} {
		if v.String() == name {
			return v, nil
		}
	}
	return 0, exit.Errorf(exit.Usage, "--vouch %s: not one of ping, sync and write", name)
}

// refusal is the note for a lock that was not got.
func (e *engine) refusal(err error) link.Note {
	var own *ownLockError
	var busy *lock.BusyError
	var carries *exit.Error
	var conflict *lock.ConflictError
	var other *lock.KindError
	switch {
	case errors.Is(err, errCancelled):
		return link.Note{Is: link.IsReleased}
	case errors.As(err, &own):
		return link.Note{Is: link.IsFailed, Status: exit.OwnLock, Text: own.Error()}
	case errors.As(err, &busy) && e.isOwn(busy):
		return link.Note{Is: link.IsFailed, Status: exit.OwnLock, Text: (&ownLockError{busy.Path}).Error()}
	case errors.Is(err, errWaitOver):
		text := fmt.Sprintf("lock %s: not got within %v", e.names(), e.open.Wait)
		return link.Note{Is: link.IsBusy, Text: text + e.nowHeldBy()}
	case errors.As(err, &busy):
		return link.Note{Is: link.IsBusy, Text: fmt.Sprintf("lock %s is busy%s", busy.Path, heldBy(busy.Holder))}
	case errors.As(err, &carries):
		return link.Note{Is: link.IsFailed, Status: carries.Status, Text: err.Error()}
	case errors.As(err, &conflict):
		return link.Note{Is: link.IsFailed, Status: exit.Usage, Text: fmt.Sprintf("lock %s: --slots %d, but it has %d (lockkeeper slots changes that)", e.names(), conflict.Want, conflict.Stored)}
	case errors.As(err, &other):
		return link.Note{Is: link.IsFailed, Status: exit.Usage, Text: fmt.Sprintf("lock %s: %s, and a contender of another form would not wait for its holders (use one form for one lock)", other.Path, usedAs(other.Kind))}
	case access.Refused(err):
		return link.Note{Is: link.IsFailed, Status: exit.NotPermitted, Text: fmt.Sprintf("%v (%s)", err, e.open.Access.AsWhom(err))}
	}
	text := err.Error()
	if !strings.Contains(text, e.open.Lock) {
		text = fmt.Sprintf("lock %s: %s", e.names(), text)
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return link.Note{Is: link.IsFailed, Status: exit.Usage, Text: text}
	case errors.Is(err, errNoAnswer), errors.Is(err, zk.ErrConnectionLoss):
		return link.Note{Is: link.IsFailed, Status: exit.Unreachable, Text: text}
	}
	return link.Note{Is: link.IsFailed, Status: exit.Internal, Text: text}
}

// usedAs says how a lock is in use that is wanted in another form.
func usedAs(k lock.Kind) string {
	switch k {
	case inspect.KindSemaphore:
		return "it is in use as a lock with --slots"
	case inspect.KindElection:
		return "it is in use as an election"
	case inspect.KindCuratorSemaphore:
		return "it is in use as a semaphore of Curator, whose permits a run cannot take"
	case inspect.KindKazooSemaphore:
		return "it is in use as a semaphore of kazoo, whose permits a run cannot take"
	}
	return "it is in use as a " + string(k) + " lock, without --slots"
}

// names returns what is wanted, in words for the user.
func (e *engine) names() string {
	return strings.Join(append([]string{e.open.Lock}, e.open.Also...), " and ")
}

// errNoAnswer says that servers were given time and have not used it.
var errNoAnswer = errors.New("no answer")

// nowHeldBy names the holder after a wait in vain, if that is known quickly.
func (e *engine) nowHeldBy() string {
	ctx, cancel := context.WithTimeout(context.Background(), lostReleaseLimit)
	defer cancel()
	snap, err := inspect.Look(ctx, e.session, e.open.Lock)
	holders := snap.Holders()
	if err != nil || len(holders) == 0 || len(e.open.Also) > 0 { // of several, it may have been another
		return ""
	}
	return heldBy(holders[0])
}

func heldBy(c lock.Contender) string {
	if who := Describe(c); who != "" {
		return ", held by " + who
	}
	return "" // it had left when we looked
}

// refresh brings the cell up to date.
func (e *engine) refresh() {
	now := link.Now() // before the library looks at its clock, so that the sum errs on the safe side
	if left := e.hold.Remaining(); left > 0 {
		e.cell.Store(now.Add(left))
	}
}

// tellCutOff tells the front why the session has no connection, or that it has one again, if that is news.
func (e *engine) tellCutOff() {
	why := ""
	if st, _ := e.session.State(); st.Phase == client.Disconnected {
		why = st.Cause.Error()
	}
	if why != e.cutOff {
		e.cutOff = why
		e.notes.send(link.Note{Is: link.IsCutOff, Text: why})
	}
}

// keep keeps the lock until the front has given it back or died, or the lock is lost; then it returns
// once nothing works under the lock any more.
func (e *engine) keep() (lost bool) {
	tick := time.NewTicker(max(e.session.Timeout()/refreshPerTerm, refreshMin))
	defer tick.Stop()
	revoked := revocation(e.hold)
	for {
		select {
		case <-tick.C:
			e.refresh()
			e.tellCutOff()
		case <-revoked:
			e.notes.send(link.Note{Is: link.IsRevoked})
			revoked = nil
		case <-e.hold.Done():
			e.lose()
			return true
		case o, alive := <-e.orders:
			switch {
			case !alive:
				e.clear()
				return false
			case o.Do == link.DoStarted:
				e.started(o)
			default: // release or cancel
				return false
			}
		}
	}
}

func (e *engine) started(o link.Order) { e.workers.group, e.parent = o.Group, o.Guard }

// clear kills what works under the lock after the front has died, and returns when it is gone: that
// which the guard knows of, too. A guard that was stopped is made to go on.
func (e *engine) clear() {
	guarded := e.swept
	for sweeps := 0; ; sweeps++ {
		if !e.workers.kill() && guarded == nil {
			return
		}
		select {
		case <-guarded:
			guarded = nil
		case <-time.After(proc.Pause(sweeps)):
			if guarded != nil && e.parent != 0 {
				syscall.Kill(e.parent, syscall.SIGCONT)
			}
		}
		e.refresh()
	}
}

// lose tells the front that the lock is lost, and waits until it has ended the child. If it does not,
// the engine does.
func (e *engine) lose() {
	cause := e.hold.Cause()
	gone := errors.Is(cause, lock.ErrNodeDeleted) || errors.Is(cause, zk.ErrSessionExpired)
	e.notes.send(link.Note{Is: link.IsLost, Gone: gone, Text: cause.Error()})
	killAt := e.plan.KillAt(e.cell.Load())
	if gone {
		e.guard.Condemn.Write([]byte{0}) // a guard that is dead or frozen is not waited for
		killAt = link.Now().Add(2 * headStart)
	}
	due := time.NewTimer(killAt.Until())
	defer due.Stop()
	for {
		select {
		case o, alive := <-e.orders:
			switch {
			case !alive:
				e.clear()
				return
			case o.Do == link.DoStarted:
				e.started(o) // it has crossed our note; the front will read that next
			default:
				return
			}
		case <-due.C:
			e.workers.kill()
			due.Reset(max(e.session.Timeout()/refreshPerTerm, refreshMin)) // for a child that started meanwhile
		}
	}
}
