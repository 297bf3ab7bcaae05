package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// lookInterval is how often the line is looked at for a user at a terminal. The lock itself needs no
// looking: it is told when its turn comes.
const lookInterval = 2 * time.Second

// A watcher tells the front about the place in line, if a terminal shows it. It ends the wait if the lock is held
// by a run under which this one was started.
type watcher struct {
	session *client.Session
	notes   *outbox
	report  bool                    // the line is shown
	under   []string                // znodes that are held by the runs under which this one was started
	slots   int                     // how many can hold the lock at once
	refuse  context.CancelCauseFunc // ends the wait
	wg      sync.WaitGroup          // of the goroutines that look, once we are in line
	once    sync.Once

	mu  sync.Mutex
	own string // our node in the line in which we wait; guarded by mu
}

// start returns what to call with a place in line. From the first call on the line is looked at until
// ctx ends, if the line is shown.
func (w *watcher) start(ctx context.Context) func(context.Context, string, lock.Place) {
	return func(_ context.Context, _ string, p lock.Place) {
		w.mu.Lock()
		w.own = p.Node
		w.mu.Unlock()
		if w.report {
			w.once.Do(func() { w.wg.Go(func() { w.look(ctx) }) })
		}
		if slices.ContainsFunc(w.under, func(node string) bool { return zk.Parent(node) == zk.Parent(p.Node) }) {
			w.wg.Go(func() { w.lookUnder(ctx, p.Node) })
		}
	}
}

// tellConnection tells the front why there is no server, and when there is one again, until ctx ends.
func (w *watcher) tellConnection(ctx context.Context) {
	told := ""
	for {
		st, changed := w.session.State()
		why := ""
		if st.Phase == client.Disconnected {
			why = shown(st.Cause.Error())
		}
		if why != told {
			told = why
			w.notes.send(link.Note{Is: link.IsCutOff, Text: why})
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// lookUnder ends the wait if holds under which this run was started are ahead of the node own and leave no slot for it.
func (w *watcher) lookUnder(ctx context.Context, own string) {
	dir := zk.Parent(own)
	line, err := inspect.Contenders(ctx, w.session, dir)
	at := slices.IndexFunc(line, func(c lock.Contender) bool { return c.Node == own })
	held := 0
	for _, c := range line[:max(at, 0)] {
		if slices.Contains(w.under, c.Node) {
			held++
		}
	}
	if err == nil && held >= w.slots {
		w.refuse(&ownLockError{dir})
	}
}

func (w *watcher) look(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		w.mu.Lock()
		own := w.own
		w.mu.Unlock()
		line, err := inspect.Contenders(ctx, w.session, zk.Parent(own))
		at := slices.IndexFunc(line, func(c lock.Contender) bool { return c.Node == own })
		if err == nil && at > 0 {
			w.notes.send(link.Note{Is: link.IsWaiting, Ahead: at, Holder: Describe(line[0]), ID: idOf(line[0])})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// idOf returns the id of a candidate in an election, which is all that another client's znode says; empty if it has none.
func idOf(c lock.Contender) string {
	var record struct{ ID string }
	switch {
	case !c.Latch:
		return ""
	case c.Owner.PID == 0:
		return shown(string(c.Data))
	case json.Unmarshal(c.Data, &record) != nil:
		return ""
	}
	return shown(record.ID)
}

// Describe names a contender, in the words of run's user where they are known: the label, which
// is the command by default, and where it runs. It can be shown on a terminal.
func Describe(c lock.Contender) string {
	o := c.Owner
	if o.Label == "" || o.PID == 0 || o.Host == "" {
		return shown(c.Describe())
	}
	return fmt.Sprintf("%s (pid %d on %s)", shown(o.Label), o.PID, shown(o.Host))
}

// shownMax is how much of another process's words is shown, in characters.
const shownMax = 200

// shown makes of another process's words what fits into a note and can be shown on a terminal.
func shown(words string) string {
	runes := []rune(words)
	if len(runes) > shownMax {
		runes = append(runes[:shownMax-1], '…')
	}
	return printable.Text(string(runes))
}
