package interop

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/zk"
)

// These tests are about Apache ZooKeeper alone: what the library's design takes for granted.

// vouchingWrite is the smallest quorum write that changes nothing.
func vouchingWrite(path string) *wire.MultiRequest {
	return &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpCheck, Path: path, Version: -1}}}
}

func TestACheckAloneInAMultiIsAWrite(t *testing.T) {
	t.Parallel()
	r := connect(t, apache.Start(t, apache.Options{}).Addr(), watcherTimeout, nil)
	node := r.create("/held", zk.Ephemeral)
	before := r.call(wire.OpExists, &wire.WatchRequest{Path: "/held"}, nil)
	var resp wire.MultiResponse
	after := r.call(wire.OpMulti, vouchingWrite("/held"), &resp)
	if before.Zxid != node.Stat.Czxid || after.Zxid != before.Zxid+1 {
		t.Errorf("zxid %#x before, %#x after; want one transaction between them", before.Zxid, after.Zxid)
	}
	if len(resp.Results) != 1 || resp.Results[0].Op != wire.OpCheck || resp.Results[0].Err != zk.OK {
		t.Errorf("results: %+v, want one check that succeeded", resp.Results)
	}
	r.call(wire.OpMulti, vouchingWrite("/gone"), &resp)
	if len(resp.Results) != 1 || resp.Results[0].Err != zk.ErrNoNode {
		t.Errorf("results for a znode that is not there: %+v, want %v", resp.Results, zk.ErrNoNode)
	}
}

// ensemble runs three servers. A raw does not ping, so another client keeps them awake.
func ensemble(t *testing.T, o apache.Options) *apache.Ensemble {
	t.Helper()
	e := apache.StartEnsemble(t, 3, o)
	t.Cleanup(e.KeepAwake())
	return e
}

// silence is how long something that must not be answered is waited for.
const silence = 300 * time.Millisecond

// answered sends a request and checks whether it is answered.
func (r *raw) answered(op wire.Op, record wire.Record, want bool) {
	r.t.Helper()
	limit := rawTimeout
	if !want {
		limit = silence
	}
	r.send(op, record)
	h, _, err := r.receive(limit)
	r.t.Logf("%v: %v, %v", op, h.Err, err)
	if got := err == nil; got != want {
		r.t.Errorf("%v: answered %v (%v), want %v", op, got, err, want)
	} else if !got && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Errorf("%v: %v, want silence", op, err)
	}
}

// Without a quorum, what a server can answer by itself is no proof that a session lives.
func TestWhatALeaderAnswersWithoutAQuorum(t *testing.T) {
	t.Parallel()
	e := ensemble(t, apache.Options{})
	r := connect(t, e.Leader().Addr(), watcherTimeout, nil)
	r.create("/held", zk.Ephemeral)
	followers := e.Followers()
	for _, f := range followers {
		f.Freeze()
	}
	r.answered(wire.OpPing, nil, true)
	r.answered(wire.OpGetData, &wire.WatchRequest{Path: "/held"}, true)
	r.answered(wire.OpSync, &wire.PathRecord{Path: "/held"}, true)
	r.answered(wire.OpMulti, vouchingWrite("/held"), false)
	for _, f := range followers {
		f.Thaw()
	}
	if h, _, err := r.receive(rawTimeout); err != nil || h.Err != zk.OK {
		t.Errorf("multi after the thaw: %v, %v; want it answered at last", h.Err, err)
	}
}

// A follower whose leader is silent answers pings and reads by itself, and nothing else.
func TestWhatAFollowerAnswersWithoutItsLeader(t *testing.T) {
	t.Parallel()
	e := ensemble(t, apache.Options{})
	leader := e.Leader()
	r := connect(t, e.Followers()[0].Addr(), watcherTimeout, nil)
	r.create("/held", zk.Ephemeral)
	leader.Freeze()
	r.answered(wire.OpPing, nil, true)
	r.answered(wire.OpGetData, &wire.WatchRequest{Path: "/held"}, true)
	r.answered(wire.OpSync, &wire.PathRecord{Path: "/held"}, false)
	leader.Thaw()
}

// The gap between a ping and the truth, on a real ensemble: a follower that is cut off from its
// leader goes on answering pings while the leader expires the session and gives its znode's place to
// others. A sync closes the gap: it is not answered. F17 is about clients that believe the ping.
func TestF17_ACutOffFollowerAnswersPingsForADeadSession(t *testing.T) {
	t.Parallel()
	e := ensemble(t, apache.Options{})
	leader, followers := e.Leader(), e.Followers()
	looker := connect(t, followers[1].Addr(), watcherTimeout, nil)
	holder := connect(t, followers[0].Addr(), sessionTimeout, nil)
	holder.create("/held", zk.Ephemeral)
	looker.call(wire.OpSync, &wire.PathRecord{Path: "/held"}, nil)

	e.CutOff(followers[0], leader)
	cut := time.Now()
	for {
		holder.call(wire.OpPing, nil, nil)
		looker.send(wire.OpExists, &wire.WatchRequest{Path: "/held"})
		h, _, err := looker.receive(rawTimeout)
		if err != nil {
			t.Fatal(err)
		}
		if h.Err == zk.ErrNoNode {
			break
		}
		if time.Since(cut) > patience {
			t.Fatal("the leader does not expire the session")
		}
		time.Sleep(50 * time.Millisecond) // between pings, as a client would
	}
	t.Logf("the znode was gone %v after the cut", time.Since(cut))
	holder.call(wire.OpPing, nil, nil)
	holder.call(wire.OpGetData, &wire.WatchRequest{Path: "/held"}, nil)
	holder.send(wire.OpSync, &wire.PathRecord{Path: "/held"})
	if h, _, err := holder.receive(time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("sync of a dead session at a cut-off follower: %v, %v; want silence", h.Err, err)
	}
	e.HealAll()
	if h, _, err := holder.receive(rawTimeout); err == nil {
		t.Errorf("sync of a dead session is answered with %v after the follower has come back", h.Err)
	}
}

// A session may be resumed on another server while its old connection is still open. The old one
// then goes on answering all but writes, syncs included: the leader does not ask whose they are.
//
// The two connections share no xid: otherwise the old one's server may take the commit of the new one's
// write for that of the old one's request, and answer it.
func TestWhatAnOldConnectionIsAnsweredAfterItsSessionMoved(t *testing.T) {
	t.Parallel()
	e := ensemble(t, apache.Options{})
	f := e.Followers()
	for _, tt := range []struct {
		op     wire.Op
		record wire.Record
		err    error // of the connection
	}{
		{wire.OpPing, nil, nil},
		{wire.OpGetData, &wire.WatchRequest{Path: "/"}, nil},
		{wire.OpSync, &wire.PathRecord{Path: "/"}, nil},
		{wire.OpMulti, vouchingWrite("/"), io.EOF},
	} {
		old := connect(t, f[0].Addr(), 6*time.Second, nil)
		moved := connect(t, f[1].Addr(), 6*time.Second, old)
		old.xid = 1000 // whereas the write has 1
		moved.call(wire.OpMulti, vouchingWrite("/"), nil)
		old.send(tt.op, tt.record)
		if h, _, err := old.receive(rawTimeout); h.Err != zk.OK || !errors.Is(err, tt.err) {
			t.Errorf("%v on the old connection: %v, %v; want %v", tt.op, h.Err, err, tt.err)
		}
	}
}

// What makes the answer to a sync a proof that the session lived when the leader saw the sync: the
// end of a session is a transaction, the leader sends it to the follower before the answer to a
// later sync, and the follower closes the session's connections when it applies it. So a sync that
// is sent after a session's end is known is never answered.
//
// The two connections share no xid, for the reason that the next test gives.
func TestSyncIsNotAnsweredOnceTheSessionIsOver(t *testing.T) {
	t.Parallel()
	e := ensemble(t, apache.Options{})
	f := e.Followers()
	for range 50 {
		old := connect(t, f[0].Addr(), 6*time.Second, nil)
		moved := connect(t, f[1].Addr(), 6*time.Second, old)
		old.xid = 1000 // whereas the close has 1
		moved.call(wire.OpCloseSession, nil, nil)
		old.send(wire.OpSync, &wire.PathRecord{Path: "/"})
		if h, _, err := old.receive(rawTimeout); err == nil {
			t.Fatalf("sync after the session's end: answered with %v", h.Err)
		}
	}
}

// A server of an ensemble finds the request that a commit belongs to by session and xid. If a client
// that resumes its session on another server begins to count again, the commit of a request from its
// old connection can be taken for that of a new one: with equal xids here, every third create or so
// is answered with the path of the other connection's znode. So a client goes on counting for as
// long as its session lives, and then gets its own answers.
func TestAnswersAreRightIfASessionNeverRepeatsAnXid(t *testing.T) {
	t.Parallel()
	e := ensemble(t, apache.Options{})
	f := e.Followers()
	connect(t, f[1].Addr(), 6*time.Second, nil).create("/x", zk.Persistent)
	for range 20 { // with equal xids, a third of the answers would be wrong
		old := connect(t, f[0].Addr(), 6*time.Second, nil)
		old.send(wire.OpCreate2, createRequest("/x/old-", zk.EphemeralSequential))
		moved := connect(t, f[1].Addr(), 6*time.Second, old)
		moved.xid = old.xid
		if c := moved.create("/x/new-", zk.EphemeralSequential); !strings.HasPrefix(c.Path, "/x/new-") {
			t.Fatalf("created %s, asked for /x/new-", c.Path)
		}
		moved.call(wire.OpCloseSession, nil, nil)
		// Its server hangs up. Were the connection closed from here in the same moment, the thread that reads
		// there might stumble (CancelledKeyException), and a client that connects just then would wait for an answer
		// until another one connects.
		var err error
		for err == nil {
			_, _, err = old.receive(rawTimeout)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the session is over, and its old connection is still open")
		}
	}
}

func TestCreate2AnswersPathAndStat(t *testing.T) {
	t.Parallel()
	r := connect(t, apache.Start(t, apache.Options{}).Addr(), watcherTimeout, nil)
	r.call(wire.OpCreateContainer, createRequest("/l", zk.Container), &wire.CreateResponse{})
	for i := range 3 {
		c := r.create("/l/_c_x-lock-", zk.EphemeralSequential)
		if want := fmt.Sprintf("/l/_c_x-lock-%010d", i); c.Path != want || c.Stat.EphemeralOwner != r.Opened.SessionID || c.Stat.Czxid == 0 {
			t.Errorf("answer %q, %+v; want %q owned by %#x", c.Path, c.Stat, want, r.Opened.SessionID)
		}
	}
	if got := r.children("/l"); len(got) != 3 || !strings.HasPrefix(got[0], "_c_x-lock-") {
		t.Errorf("children: %q", got)
	}
}

// What began as one server can become an ensemble: each member is given a copy of the directory.
func TestAStandaloneDirectorySeedsAnEnsemble(t *testing.T) {
	t.Parallel()
	one := apache.Start(t, apache.Options{})
	r := connect(t, one.Addr(), 2*time.Second, nil)
	was := r.create("/kept", zk.Persistent).Stat
	r.create("/session", zk.Ephemeral)
	one.Kill()
	e := ensemble(t, apache.Options{Seed: one.DataDir()})
	for _, s := range e.Servers {
		r := connect(t, s.Addr(), 6*time.Second, nil)
		var is wire.StatResponse
		r.call(wire.OpExists, &wire.WatchRequest{Path: "/kept"}, &is)
		if is.Stat != was {
			t.Errorf("server %d has %+v, want %+v", s.ID(), is.Stat, was)
		}
	}
	// The old session is granted its time once more, and then its znode goes.
	r = connect(t, e.Leader().Addr(), watcherTimeout, nil)
	for deadline := time.Now().Add(rawTimeout); slices.Contains(r.children("/"), "session"); {
		if time.Now().After(deadline) {
			t.Fatal("the znode of a session that is not resumed does not go")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if c := r.create("/new", zk.Persistent); c.Stat.Czxid <= was.Czxid {
		t.Errorf("zxid %#x after %#x: tokens would shrink", c.Stat.Czxid, was.Czxid)
	}
}

// A sync of the leader's own client waits for nothing: the leader answers it as it answers a read, also while a write that it has
// proposed waits for a quorum. (A follower's sync is answered behind all that the leader has proposed.) So after a write whose
// answer was lost on a follower, a sync on the leader and a read do not tell what became of it. A transaction does, because it is
// decided, and answered, behind all that were proposed before.
func TestSyncOnTheLeaderIsNotBehindWhatItHasProposed(t *testing.T) {
	t.Parallel()
	e := ensemble(t, apache.Options{})
	leader, followers := e.Leader(), e.Followers()
	writer := connect(t, leader.Addr(), watcherTimeout, nil)
	syncer := connect(t, leader.Addr(), watcherTimeout, nil)
	committer := connect(t, leader.Addr(), watcherTimeout, nil)
	for _, f := range followers {
		f.Freeze()
	}
	writer.send(wire.OpCreate, &wire.CreateRequest{Path: "/proposed", ACL: zk.OpenACL()})
	time.Sleep(100 * time.Millisecond) // until it is proposed
	syncer.call(wire.OpSync, &wire.PathRecord{Path: "/"}, nil)
	syncer.send(wire.OpExists, &wire.WatchRequest{Path: "/proposed"})
	if h, _, err := syncer.receive(rawTimeout); err != nil || h.Err != zk.ErrNoNode {
		t.Errorf("exists behind a sync: %v, %v, want no node", h.Err, err)
	}
	committer.send(wire.OpMulti, vouchingWrite("/"))
	for _, f := range followers {
		f.Thaw()
	}
	if h, _, err := committer.receive(rawTimeout); err != nil || h.Err != zk.OK {
		t.Fatalf("a transaction behind the write: %v, %v", h.Err, err)
	}
	committer.call(wire.OpExists, &wire.WatchRequest{Path: "/proposed"}, nil)
	if h, _, err := writer.receive(rawTimeout); err != nil || h.Err != zk.OK {
		t.Errorf("the write: %v, %v", h.Err, err)
	}
}
