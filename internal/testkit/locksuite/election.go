package locksuite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

var electionTests = []test{
	{"F37_OldNodeAfterAReconnect", f37OldNode},
	{"F37_SessionExpires", f37Expires},
	{"F37_NodeDeleted", f37Deleted},
	{"F37_EventsOfAnOlderCampaign", f37OlderCampaign},
	{"F38_Flaps", f38Flaps},
	{"F38_DirectoryDeleted", f38Directory},
	{"F38_InterruptedTwice", f38Interrupted},
	{"F38_Observers", f38Observers},
	{"F39_LostBeforeTheWorkBegins", f39BeforeWork},
	{"F39_HandOverAfterTheWork", f39HandOver},
	{"F39_WorkStopsBeforeTheDeadline", f39Deadline},
	{"F39_WorkGoesOn", f39GoesOn},
}

// electionServerTests stop and start the server.
var electionServerTests = []test{{"F37_ServerAway", f37ServerAway}}

// A leader hears nothing until its term has ended, and connects again while its node is still there. The old node does
// not make it leader again: another candidate leads, and it stands again.
func f37OldNode(w *World, t *testing.T) {
	var reg Register
	a := w.Stand("a", &reg, election.Options{}, 0)
	first := a.leads(0)
	b := w.Stand("b", &reg, election.Options{}, 0)
	w.WaitQueue(2)
	a.Proxy.SetFlows(faultproxy.Stall)
	w.Ended(first, lock.ErrDeadline)
	if w.Virtual {
		if there, err := w.Exists(first.Node()); err != nil || !there {
			t.Errorf("the old node is there: %v, %v", there, err)
		}
	}
	a.Proxy.SetFlows(faultproxy.Pass)
	b.leads(0)
	w.WaitQueue(2)
	if first.Cause() == nil || a.leading() {
		t.Error("the old leader leads again")
	}
	b.Stop()
	if again := a.leads(1); again.Token() <= first.Token() || again.Node() == first.Node() {
		t.Errorf("leads again with token %#x after %#x, node %s", again.Token(), first.Token(), again.Node())
	}
	a.Stop()
	reg.Check(t)
}

// The leader's session expires while it is cut off. Another leads after its term has ended, and the old one
// comes back under a new session, at the end of the queue.
func f37Expires(w *World, t *testing.T) {
	for range w.reps(20, 1) {
		var reg Register
		a := w.Stand("a", &reg, election.Options{}, 0)
		first := a.leads(0)
		b := w.Stand("b", &reg, election.Options{}, 0)
		w.WaitQueue(2)
		a.Proxy.Refuse(true)
		a.Proxy.SetFlows(faultproxy.Stall)
		second := b.leads(0)
		if first.Cause() == nil {
			t.Error("two lead")
		}
		a.Proxy.SetFlows(faultproxy.Pass)
		a.Proxy.Refuse(false)
		w.WaitQueue(2)
		if a.leading() || second.Cause() != nil {
			t.Errorf("the old leader leads: %v; the new one: %v", a.leading(), second.Cause())
		}
		if old, _ := a.last(); a.sessions.Load() < 2 || old.Err() != nil {
			t.Errorf("the old leader stands under session %d: %v", a.sessions.Load(), old.Err())
		}
		b.Stop()
		a.leads(1)
		a.Stop()
		reg.Check(t)
	}
}

// The server is away for longer than the sessions should live. It comes back with all of them, and with the old
// leader's node: its term has ended nevertheless, and from then on one leads.
func f37ServerAway(w *World, t *testing.T) {
	for range w.reps(10, 1) {
		var reg Register
		a := w.Stand("a", &reg, election.Options{}, 0)
		first := a.leads(0)
		b := w.Stand("b", &reg, election.Options{}, 0)
		w.WaitQueue(2)
		w.server.stop()
		time.Sleep(w.Timeout * 3 / 2)
		if first.Cause() == nil {
			t.Error("the term goes on without a server")
		}
		w.server.start()
		b.leads(0)
		w.WaitQueue(2)
		if a.leading() {
			t.Error("two lead")
		}
		b.Stop()
		a.leads(1)
		a.Stop()
		reg.Check(t)
	}
}

// The leader's node is deleted while it leads. It knows at once, and stands again.
func f37Deleted(w *World, t *testing.T) {
	var reg Register
	a := w.Stand("a", &reg, election.Options{}, 0)
	first := a.leads(0)
	time.Sleep(w.moment()) // the node is watched a moment after the grant
	w.Delete(first.Node())
	w.Ended(first, lock.ErrNodeDeleted)
	a.leads(1)
	b := w.Stand("b", &reg, election.Options{}, 0)
	w.WaitQueue(2)
	a.Stop()
	b.leads(0)
	b.Stop()
	reg.Check(t)
}

// A campaign is given up while it waits, and another begun behind another candidate. What the first one waited
// for happens, and is heard of late: it is none of the second's business.
func f37OlderCampaign(w *World, t *testing.T) {
	holder, b := w.Client("holder"), w.Client("b")
	first := must(w, holder.Election(election.Options{}).Campaign)
	a := w.Client("a")
	e := a.Election(election.Options{})
	ctx, giveUp := context.WithCancel(w.Context())
	gaveUp := make(chan error, 1)
	go func() { _, err := e.Campaign(ctx); gaveUp <- err }()
	w.WaitQueue(2)
	w.Quiet(a)
	giveUp()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("a campaign that was given up = %v", err)
	}
	w.WaitQueue(1)
	second := ask(w, b.Election(election.Options{}).Campaign)
	w.WaitQueue(2)
	third := ask(w, e.Campaign)
	w.WaitQueue(3)
	w.Quiet(a)
	a.Proxy.SetFlow(faultproxy.ToClient, faultproxy.Stall)
	w.resign(first)
	term := second.Granted()
	a.Proxy.SetFlow(faultproxy.ToClient, faultproxy.Pass)
	select {
	case <-third.done:
		t.Fatalf("two lead, or one gives up: %v", third.err)
	case <-time.After(w.moment()):
	}
	w.resign(term)
	w.resign(third.Granted())
}

// Candidates whose connections break all the time keep their nodes, and when the network calms down there
// is a leader at once, and one.
func f38Flaps(w *World, t *testing.T) {
	seed := w.seed()
	r := rand.New(rand.NewPCG(seed, 0))
	for _, candidates := range []int{2, 3} {
		var reg Register
		var standers []*Stander
		before := w.created()
		for i := range candidates {
			standers = append(standers, w.Stand(fmt.Sprint("c", i), &reg, election.Options{}, 0))
		}
		w.WaitQueue(candidates)
		pauses := w.Timeout / 50
		for range w.reps(1000, 40) {
			s := standers[r.IntN(candidates)]
			switch r.IntN(8) {
			case 0: // for long enough to lose leadership, and sometimes the session
				s.Proxy.SetFlows(faultproxy.Stall)
				time.Sleep(time.Duration(r.Int64N(int64(w.Timeout * 5 / 4))))
				s.Proxy.SetFlows(faultproxy.Pass)
				s.Proxy.CutAll()
			case 1:
				s.Proxy.CutAll()
				standers[r.IntN(candidates)].Proxy.CutAll()
			default:
				s.Proxy.CutAll()
			}
			time.Sleep(time.Duration(r.Int64N(int64(pauses))))
		}
		w.oneLeads(time.Second+w.Timeout+2*w.Tick+w.slack(), standers)
		w.WaitQueue(candidates)
		var sessions, terms int64
		for _, s := range standers {
			sessions += s.sessions.Load()
			terms += s.terms.Load()
		}
		// Each session began with a node, each term that ended without its session was followed by
		// another, and made at most one release marker.
		made := w.created() - before
		if most := sessions + 2*terms; made > most {
			t.Errorf("%d nodes were made, by %d sessions in %d terms: want at most %d", made, sessions, terms, most)
		}
		t.Logf("%d candidates: %d nodes, %d sessions, %d terms", candidates, made, sessions, terms)
		for _, s := range standers {
			s.Stop()
		}
		reg.Check(t)
		w.WaitQueue(0)
	}
}

// created returns how many nodes were ever made in the directory; none if it is not there.
func (w *World) created() int64 {
	w.t.Helper()
	stat, _, err := w.fresh().Exists(w.Context(), w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return (int64(stat.Cversion) + int64(stat.NumChildren)) / 2 // it counts deletions, too
}

// Another client deletes everything. There is one leader again, and all candidates are back.
func f38Directory(w *World, t *testing.T) {
	var reg Register
	var standers []*Stander
	for i := range 3 {
		standers = append(standers, w.Stand(fmt.Sprint("c", i), &reg, election.Options{}, 0))
	}
	w.WaitQueue(3)
	old := w.Queue()
	for range w.reps(10, 2) {
		time.Sleep(w.moment())
		for _, name := range w.Queue() {
			if err := w.admin.Delete(w.Context(), zk.Join(w.dir, name), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
		}
		if err := w.admin.Delete(w.Context(), w.dir, -1); err != nil && !errors.Is(err, zk.ErrNotEmpty) {
			t.Fatal(err)
		}
		w.WaitQueue(3)
		w.oneLeads(patience, standers)
	}
	for _, name := range w.Queue() {
		if slices.Contains(old, name) {
			t.Errorf("%s is still there: nothing was deleted", name)
		}
	}
	for _, s := range standers {
		s.Stop()
	}
	// A deleted node is heard of a moment later; until then two may lead, and only tokens tell. So
	// the register is not asked about overlaps here.
}

// A candidate's node is deleted while it waits, and again: it is in the queue nevertheless, by as many nodes.
func f38Interrupted(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	first := must(w, a.Election(election.Options{}).Campaign)
	got := ask(w, b.Election(election.Options{}).Campaign)
	w.WaitQueue(2)
	before := w.created()
	for range 2 {
		old := w.Queue()
		for _, name := range old {
			if node := zk.Join(w.dir, name); node != first.Node() {
				w.Delete(node)
			}
		}
		w.Within(patience, "the candidate is in the queue again", func() bool {
			now := w.Queue()
			return len(now) == 2 && fmt.Sprint(now) != fmt.Sprint(old)
		})
	}
	if made := w.created() - before; made != 2 {
		t.Errorf("%d nodes were made for 2 that were deleted", made)
	}
	w.resign(first)
	w.resign(got.Granted())
}

// A watcher sees each leader, and at last the last one, whatever happens to its connection, and
// however slow it is.
func f38Observers(w *World, t *testing.T) {
	watcher := w.Client("watcher")
	e := watcher.Election(election.Options{})
	seen := make(chan string)
	ctx, stop := context.WithCancel(w.Context())
	defer stop()
	over := make(chan error, 1)
	go func() {
		var last error
		for c, err := range e.Watch(ctx) {
			last = err
			if err != nil {
				break
			}
			select {
			case seen <- c.ID: // and waits until the test takes it: slow enough
			case <-ctx.Done():
			}
		}
		over <- last
	}()
	sees := func(id string) {
		t.Helper()
		for {
			select {
			case got := <-seen:
				if got == id {
					return
				}
			case <-w.Context().Done():
				t.Fatalf("a watcher does not see that %q leads", id)
			}
		}
	}
	sees("")
	var clients []*Client
	for i := range 3 {
		clients = append(clients, w.Client(fmt.Sprint("c", i)))
	}
	for i := range w.reps(200, 20) {
		term := must(w, clients[i%3].Election(election.Options{}).Campaign)
		switch i % 4 {
		case 0:
			watcher.Proxy.CutAll()
		case 1:
			watcher.Unreachable()
		}
		if i%5 == 0 {
			watcher.Reachable()
			sees(fmt.Sprint("c", i%3))
		}
		w.resign(term)
		watcher.Reachable()
		if i%7 == 0 {
			sees("")
		}
	}
	term := must(w, clients[0].Election(election.Options{ID: "the last", Data: []byte{0, 1}}).Campaign)
	sees("the last")
	leader, err := e.Leader(w.Context())
	if err != nil || leader.Node != term.Node() || leader.Token != term.Token() || string(leader.Data) != "\x00\x01" {
		t.Errorf("Leader = %+v, %v, want the node %s", leader, err, term.Node())
	}
	w.resign(term)
	sees("")
	stop()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

// A term that ends before its work begins: the work is not begun, or sees a context that has ended.
func f39BeforeWork(w *World, t *testing.T) {
	for name, end := range map[string]func(*Client, *election.Term){
		"deleted":  func(_ *Client, term *election.Term) { w.Delete(term.Node()) },
		"expired":  func(c *Client, _ *election.Term) { w.Expire(c.Session) },
		"resigned": func(_ *Client, term *election.Term) { w.resign(term) },
	} {
		c := w.Client(name)
		e := c.Election(election.Options{})
		term := must(w, e.Campaign)
		time.Sleep(w.moment())
		end(c, term)
		<-term.Done()
		err := term.Work(func(ctx context.Context) error {
			if ctx.Err() == nil {
				t.Errorf("%s: work is begun under a context that has not ended", name)
			}
			return context.Cause(ctx)
		})
		if err == nil || !errors.Is(err, term.Cause()) {
			t.Errorf("%s: Do = %v, the term ended with %v", name, err, term.Cause())
		}
		if err := term.Resign(w.Context()); (err == nil) != (name == "resigned") {
			t.Errorf("%s: Resign = %v", name, err)
		}
	}
}

// A leader that resigns is followed only after its work has stopped, however it resigns.
func f39HandOver(w *World, t *testing.T) {
	const needs = 500 * time.Millisecond
	for range w.reps(20, 2) {
		var reg Register
		a := w.Stand("a", &reg, election.Options{}, needs)
		first := a.leads(0)
		b := w.Stand("b", &reg, election.Options{}, needs)
		w.WaitQueue(2)
		began := time.Now()
		if err := first.Resign(w.Context()); err != nil {
			t.Errorf("resign: %v", err)
		}
		b.leads(0)
		if d := time.Since(began); d < needs {
			t.Errorf("the successor leads after %v, the work needed %v", d, needs)
		}
		w.WaitQueue(2) // a leader that has resigned stands again, for its Run goes on
		b.Stop()
		a.leads(1)
		a.Stop()
		if a.err == nil || b.err == nil {
			t.Errorf("Run = %v and %v, want what their contexts ended with", a.err, b.err)
		}
		reg.Check(t)
	}
}

// A leader is cut off, and back in the moment in which it is told to stop. What it needs to stop it has: its
// node stays until the work has stopped.
func f39Deadline(w *World, t *testing.T) {
	margin := w.Timeout / 3
	needs := margin * 2 / 3
	if !w.Virtual {
		needs = margin / 4 // and the rest is for a busy machine
	}
	for range w.reps(20, 2) {
		var reg Register
		a := w.Stand("a", &reg, election.Options{Margin: margin}, needs)
		first := a.leads(0)
		b := w.Stand("b", &reg, election.Options{}, 0)
		w.WaitQueue(2)
		a.Proxy.SetFlows(faultproxy.Stall)
		w.Ended(first, lock.ErrDeadline)
		a.Proxy.SetFlows(faultproxy.Pass)
		b.leads(0)
		b.Stop()
		a.Stop()
		reg.Check(t)
	}
}

// Work that does not stop is reported when its time is over, and the next leader's token is larger.
func f39GoesOn(w *World, t *testing.T) {
	const grace = 300 * time.Millisecond
	a, b := w.Client("a"), w.Client("b")
	stopped := make(chan struct{})
	var token atomic.Int64
	began := make(chan struct{})
	result := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		result <- a.Election(election.Options{Grace: grace}).Lead(ctx, func(_ context.Context, term *election.Term) error {
			token.Store(term.Token())
			close(began)
			<-stopped
			return nil
		})
	}()
	<-began
	next := ask(w, b.Election(election.Options{}).Campaign)
	w.WaitQueue(2)
	at := time.Now()
	cancel()
	w.Bounded("Lead whose work goes on", grace, func() {
		select {
		case err := <-result:
			if !errors.Is(err, election.ErrOverran) {
				t.Errorf("Lead = %v, want ErrOverran", err)
			}
		case <-time.After(patience):
			close(stopped)
			t.Fatal("Lead waits for work that goes on")
		}
	})
	term := next.Granted()
	if d := time.Since(at); d < grace {
		t.Errorf("the successor leads after %v, the grace is %v", d, grace)
	}
	if term.Token() <= token.Load() {
		t.Errorf("the successor's token %#x, the first one's %#x", term.Token(), token.Load())
	}
	close(stopped)
	w.resign(term)
}
