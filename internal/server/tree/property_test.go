package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func (s *step) decide(d *Draft) txn.Txn {
	switch {
	case s.goodbye:
		return d.CloseSession(&s.req)
	case s.open:
		return d.CreateSession(&s.req, 4000)
	case s.setACL != nil:
		return d.SetACL(&s.req, s.setACL)
	case s.reap != "":
		return d.DeleteContainer(&s.req, s.reap)
	case s.multi != nil:
		return d.Multi(&s.req, s.multi)
	}
	return d.Op(&s.req, s.op)
}

// onTwin does the step on the twin and says what outcome it wants.
func (s *step) onTwin(t *twin) Outcome {
	t.effects = nil
	var out Outcome
	switch {
	case s.goodbye:
		t.closeSession(&s.req)
	case s.open:
	case s.setACL != nil:
		out.Stat, out.Err = t.setACL(&s.req, s.setACL)
	case s.reap != "":
		out.Err = t.reap(&s.req, s.reap)
	case s.multi != nil:
		for i := range s.multi {
			if creates(s.multi[i].Op) && !s.multi[i].Mode.Valid() {
				out.Err = zk.ErrMarshalling
			}
		}
		if out.Err == zk.OK {
			out.Multi = t.multi(&s.req, s.multi)
		}
	default:
		res := t.do(&s.req, s.op)
		out.Err, out.Path, out.Stat = res.Err, res.Path, res.Stat
	}
	out.Effects = t.effects
	return out
}

func sameOutcome(a, b *Outcome) bool {
	return a.Err == b.Err && a.Path == b.Path && a.Stat == b.Stat &&
		slices.EqualFunc(a.Multi, b.Multi, func(x, y wire.MultiResult) bool { return reflect.DeepEqual(x, y) }) &&
		slices.EqualFunc(a.Effects, b.Effects, func(x, y Effect) bool {
			return x.Event == y.Event && slices.Equal(x.ACL.Entries(), y.ACL.Entries())
		})
}

func seeds(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	if testing.Short() {
		n = max(n/10, 1)
	}
	base := rand.Uint64N(1 << 40)
	for i := range n {
		seed := base + uint64(i)
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { f(t, seed) }) {
			return
		}
	}
}

// The tree with its drafts, in batches of any size, does what the twin does one request at a time.
func TestLikeTwin(t *testing.T) {
	seeds(t, 60, func(t *testing.T, seed uint64) {
		g := newGen(seed)
		tr, tw := New(true), newTwin()
		limit := 0
		if seed%3 == 0 {
			limit = 40
		}
		tw.limit = limit
		d := NewDraft(tr, Options{ExtendedTypes: true, EphemeralBytesMax: limit})
		var out Outcome
		for range 120 {
			steps := make([]step, 1+g.IntN(6))
			txns := make([]txn.Txn, len(steps))
			sums := make([]txn.Digest, len(steps))
			for i := range steps {
				steps[i] = g.step()
				txns[i] = steps[i].decide(d)
				sums[i], _ = d.Digest()
			}
			clear(tw.closed) // a session closed in an earlier batch is reopened by its next request
			for i := range steps {
				want := steps[i].onTwin(tw)
				tr.Apply(&txns[i], &out)
				if !sameOutcome(&out, &want) {
					t.Fatalf("step %+v\n got %+v\nwant %+v", steps[i], out, want)
				}
				if sum, _ := tr.Digest(); sum != sums[i] {
					t.Fatalf("step %+v: draft foresaw digest %v, it is %v", steps[i], sums[i], sum)
				}
			}
			d.Reset()
			if diff := tw.diff(tr); diff != "" {
				t.Fatalf("after %+v: %s", steps, diff)
			}
			got, _ := tr.Reaper().Next(g.now, 0, 1000, 1000)
			slices.Sort(got)
			if want := tw.reapable(g.now); !slices.Equal(got, want) {
				t.Fatalf("the reaper finds %q, want %q", got, want)
			}
		}
	})
}

// Deciding a batch before applying any of it gives the same bytes as one at a time.
func TestBatchIsLikeOneByOne(t *testing.T) {
	seeds(t, 60, func(t *testing.T, seed uint64) {
		g := newGen(seed)
		a, b := New(true), New(true)
		o := Options{ExtendedTypes: true, EphemeralBytesMax: 100}
		da, db := NewDraft(a, o), NewDraft(b, o)
		var out Outcome
		for range 60 {
			batch := make([]txn.Txn, 0, 20)
			for range 1 + g.IntN(20) {
				s := g.step()
				ta := s.decide(da)
				tb := s.decide(db)
				if x, y := ta.AppendTo(nil), tb.AppendTo(nil); !bytes.Equal(x, y) {
					t.Fatalf("step %+v\nin a batch %+v\n    alone  %+v", s, ta, tb)
				}
				b.Apply(&tb, &out)
				closed := db.closed
				db.Reset()
				if s.goodbye {
					closed[s.req.Session] = struct{}{} // the draft of one forgets; the batch does not
				}
				for c := range da.closed {
					db.closed[c] = struct{}{}
				}
				batch = append(batch, ta)
			}
			for i := range batch {
				a.Apply(&batch[i], &out)
			}
			da.Reset()
			clear(db.closed)
			if x, y := a.digest, b.digest; x != y {
				t.Fatalf("digests differ: %d, %d", x, y)
			}
		}
	})
}

// dump is everything a tree stores, in an order of its own.
func dump(t *Tree) []string {
	var out []string
	c := t.Snapshot()
	acls := map[int64][]zk.ACL{txn.OpenACLID: zk.OpenACL()}
	for _, e := range c.ACLs() {
		acls[e.ID] = e.ACL
	}
	for _, n := range c.Next(nil, 1<<30) {
		acl := acls[n.ACLID]
		n.ACLID = 0
		out = append(out, fmt.Sprintf("%+v %v null=%v", n, acl, n.Data == nil))
	}
	slices.Sort(out)
	return out
}

// A snapshot taken while the tree changes, and then the log from its zxid on, give the tree back;
// so does the log over a snapshot that already holds all of it.
func TestReplayConverges(t *testing.T) {
	seeds(t, 150, func(t *testing.T, seed uint64) {
		g := newGen(seed)
		tr := New(true)
		d := NewDraft(tr, Options{ExtendedTypes: true})
		var out Outcome
		var log []txn.Txn
		write := func(n int) {
			for range n {
				s := g.step()
				tx := s.decide(d)
				tr.Apply(&tx, &out)
				d.Reset()
				var err error
				if tx, _, err = txn.Decode(tx.AppendTo(nil)); err != nil { // as the log has it
					t.Fatalf("step %+v: %v", s, err)
				}
				log = append(log, tx)
			}
		}
		write(g.IntN(200))
		early := tr.LastZxid()
		write(g.IntN(100))
		c := tr.Snapshot()
		before := map[string]int64{}
		for _, n := range c.tree.Snapshot().Next(nil, 1<<30) {
			before[n.Path] = n.Czxid
		}
		acls := c.ACLs()
		var nodes []txn.Node
		for {
			had := len(nodes)
			nodes = c.Next(nodes, 1+g.IntN(3))
			if len(nodes) == had {
				break
			}
			write(g.IntN(6))
		}
		for path, czxid := range before { // guarantee 2
			now, ok := tr.Lookup(cleanPath(path))
			if ok && now.Czxid == czxid && !slices.ContainsFunc(nodes, func(n txn.Node) bool { return n.Path == path && n.Czxid == czxid }) {
				t.Fatalf("the walk missed %q", path)
			}
		}
		for _, n := range nodes { // guarantee 3
			if n.ACLID != txn.OpenACLID && !slices.ContainsFunc(acls, func(e txn.ACLEntry) bool { return e.ID == n.ACLID }) {
				t.Fatalf("%q has list %d, which is not in the table", n.Path, n.ACLID)
			}
		}
		write(g.IntN(30))

		check := func(what string, from int64, acls []txn.ACLEntry, nodes []txn.Node) {
			r := NewRestorer(true)
			for _, e := range acls {
				if err := r.AddACL(e); err != nil {
					t.Fatal(err)
				}
			}
			for i := range nodes {
				if err := r.Add(&nodes[i]); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			back := r.Finish(from)
			for i := range log {
				if log[i].Zxid > from {
					back.Apply(&log[i], &out)
				}
			}
			got, want := dump(back), dump(tr)
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("%s differs:\n got %q\nwant %q", what, got[min(i, len(got)):], want[min(i, len(want)):])
				}
			}
			if back.digest != tr.digest || back.bytes != tr.bytes || back.ephemerals != tr.ephemerals || back.lastZxid != tr.lastZxid {
				t.Fatalf("%s: sums differ", what)
			}
			if err := checkSound(back); err != nil {
				t.Fatal(err)
			}
		}
		check("fuzzy snapshot and log", c.Zxid(), acls, nodes)
		full := tr.Snapshot()
		check("snapshot ahead of its log", early, full.ACLs(), full.Next(nil, 1<<30))
		if err := checkSound(tr); err != nil {
			t.Fatal(err)
		}
	})
}

func cleanPath(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// checkSound counts what the tree only keeps sums of: uses of lists, members of groups, places.
func checkSound(t *Tree) error {
	uses := make([]int, len(t.lists.slots))
	uses[slotOpen], uses[slotReadOnly] = 1, 1
	nodes, extras := 0, 0
	groups := map[int64]int{}
	for r := ref(1); r <= t.nodes.Last(); r++ {
		n := t.nodes.At(r)
		if n.blob == "" {
			continue
		}
		nodes++
		uses[n.acl]++
		if n.extra != 0 {
			extras++
		}
		if k := groupOf(n.owner); k != 0 {
			groups[k]++
		}
		if r != rootRef && t.child(n.parent, n.name()) != r {
			return fmt.Errorf("%s is not in the index", t.path(r))
		}
	}
	for slot, n := range uses {
		if t.lists.slots[slot].uses != n {
			return fmt.Errorf("list %v counts %d uses, has %d", t.lists.slots[slot].acl, t.lists.slots[slot].uses, n)
		}
	}
	if held := t.extras.Len(); held != extras {
		return fmt.Errorf("%d extras are held, %d used", held, extras)
	}
	if held := t.nodes.Len(); held != nodes || nodes != t.count {
		return fmt.Errorf("%d nodes are held, %d used, %d counted", held, nodes, t.count)
	}
	for k, g := range t.groups {
		bytes := 0
		for r := g.first; r != 0; r = t.younger(r) {
			groups[k]--
			bytes += t.pathLen(r) + pathOverhead
		}
		if groups[k] != 0 || bytes != g.bytes {
			return fmt.Errorf("group %x: %d members missing, %d bytes, counted %d", k, groups[k], bytes, g.bytes)
		}
	}
	return nil
}
