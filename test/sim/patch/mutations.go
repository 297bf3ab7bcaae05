package patch

// A Mutation takes one cure out of the product.
type Mutation struct {
	Name    string
	Entry   string // of the failure atlas, or the invariant that it breaks
	Patches []Patch
	Within  int  // seeds, from 1 on, within which the simulation has to notice it
	Short   bool // it is tried by the short form too
}

// Mutations are all that the simulation has to notice.
var Mutations = []Mutation{
	{Name: "the deadline of a hold is 4/3 of the timeout", Entry: "F17", Within: 1000, Short: true, Patches: []Patch{
		{File: "internal/lease/lease.go", Old: "return min(Term(timeout), timeout*5/6-l.silence, timeout-l.known) - age", New: "return timeout*4/3 - age"},
	}},
	{Name: "the leader is taken to know the newest request", Entry: "F17", Within: 5000, Patches: []Patch{
		{File: "internal/lease/lease.go", Old: "return min(Term(timeout), timeout*5/6-l.silence, timeout-l.known) - age", New: "return Term(timeout) - age"},
	}},
	{Name: "what was sent counts as heard, however late its answer", Entry: "F17", Within: 1000, Patches: []Patch{
		{File: "internal/lease/lease.go", Old: "newest.Sub(p.answered)", New: "newest.Sub(p.sent)"},
		{File: "internal/lease/lease.go", Old: "sent.Sub(h.proofs[known].answered)", New: "sent.Sub(h.proofs[known].sent)"},
	}},
	{Name: "the newest timeout counts", Entry: "F46", Within: 5000, Patches: []Patch{
		{File: "client/connect.go", Old: "s.mu.timeout = min(granted, cmp.Or(s.mu.timeout, granted))", New: "s.mu.timeout = granted"},
	}},
	{Name: "a ping vouches as much as a sync", Entry: "F17", Within: 1000, Patches: []Patch{
		{File: "client/writer.go", Old: "	case provesPing:\n		beat = ", New: "	case provesPing, provesSync:\n		beat = "},
		{File: "client/vouch.go", Old: "	case wire.OpSync:\n		return provesSync\n", New: "	case wire.OpSync, wire.OpPing:\n		return provesSync\n"},
	}},
	// The answer's moment alone does not show: a late answer is a silence, too, which the other conditions of the lease count.
	{Name: "deadlines are two thirds of the timeout behind the answer to a heartbeat", Entry: "F17", Within: 1000, Patches: []Patch{
		{File: "client/conn.go", Old: "s.noteProofLocked(proven, k.sent, c.in.heard)", New: "s.noteProofLocked(proven, c.in.heard, c.in.heard)"},
		{File: "internal/lease/lease.go", Old: "return min(Term(timeout), timeout*5/6-l.silence, timeout-l.known) - age", New: "return Term(timeout) - age"},
	}},
	{Name: "a sync vouches as much as a write", Entry: "F17", Within: 1000, Patches: []Patch{
		{File: "client/writer.go", Old: "	var beat *call\n	switch proves {", New: "	if proves == provesWrite {\n		proves = provesSync\n	}\n	var beat *call\n	switch proves {"},
		{File: "client/vouch.go", Old: "	case wire.OpSync:\n		return provesSync\n", New: "	case wire.OpSync:\n		return provesWrite\n"},
	}},
	{Name: "nothing ahead of the recovery listing", Entry: "F02", Within: 20000, Patches: []Patch{
		{File: "lock/attempt.go", Old: "			p.AwaitWrites()\n			lastConn = 0\n", New: "			lastConn = 0\n"},
		{File: "lock/attempt.go", Old: "			p.Sync(a.lock.dir)\n			lastConn = 0\n", New: "			lastConn = 0\n"},
	}},
	{Name: "a create without an answer counts as refused", Entry: "F01", Within: 100, Patches: []Patch{
		{File: "lock/attempt.go", Old: "	case lost || !client.MaybeApplied(err):\n		c.created, c.unknown = nil, c.unknown || lost\n", New: "	case !lost || lost:\n		c.created = nil\n"},
	}},
	{Name: "an unresolved create is not handed to the cleaner", Entry: "F04", Within: 100, Patches: []Patch{
		{File: "lock/attempt.go", Old: "	if len(a.nodes) > 0 || a.unknown || a.created != nil {\n", New: "	if len(a.nodes) > 0 {\n"},
	}},
	{Name: "there is no cleaner", Entry: "F25", Within: 50, Short: true, Patches: []Patch{
		{File: "lock/cleaner.go", Old: "	attemptIDs.add(left.id)\n", New: "	return\n"},
	}},
	{Name: "a wait does not listen to its own node", Entry: "F06", Within: 1000, Short: true, Patches: []Patch{
		{File: "lock/wait.go", Old: "watches := append(slices.Clone(a.watches), a.knownPermits.watch)", New: "watches := []*client.Watch{a.knownPermits.watch}"},
		{File: "lock/wait.go", Old: "	case slices.ContainsFunc(a.watches, (*client.Watch).Fired):\n		return false, a.checkOwn()\n", New: ""},
	}},
	{Name: "a session that is answered with another one goes on as that", Entry: "F20", Within: 1000, Short: true, Patches: []Patch{
		{File: "client/connect.go", Old: "	case s.ID() != 0 && resp.SessionID != s.ID():\n", New: "	case s.ID() < 0 && s.ID() > 0:\n"},
	}},
	{Name: "a predecessor that has gone is waited for", Entry: "F09", Within: 1000, Patches: []Patch{
		{File: "lock/wait.go", Old: "		if _, err := w.got.Wait(ctx); err != nil {\n			return nil, relistOr(err, nil)", New: "		if _, err := w.got.Wait(ctx); err != nil && !errors.Is(err, zk.ErrNoNode) {\n			return nil, relistOr(err, nil)"},
	}},
	{Name: "the wrong predecessor", Entry: "F11", Within: 50, Patches: []Patch{
		{File: "lock/internal/queue/rules.go", Old: "for i := place - 1; i >= 0; i-- {\n		if conflict", New: "for i := place - 2; i >= 0; i-- {\n		if conflict"},
	}},
	{Name: "the end of the claim ahead grants, whatever its place was", Entry: "F11", Within: 1000, Patches: []Patch{
		{File: "lock/wait.go", Old: "if !w.frees && !w.releaseMarkerFired(conn) {", New: "if false {"},
	}},
	{Name: "the line is ordered by the text of names", Entry: "F11", Within: 50, Patches: []Patch{
		{File: "lock/internal/queue/queue.go", Old: "cmp.Or(int(a.Number-b.Number), strings.Compare(a.Name, b.Name))", New: "cmp.Or(strings.Compare(a.Name, b.Name), int(a.Number-b.Number))"},
	}},
	{Name: "the holder's node is not watched", Entry: "F16", Within: 2000, Patches: []Patch{
		{File: "lock/watchdog.go", Old: "if g.watched.own == nil && g.watched.arming == nil && !now.Before(g.watched.notBefore) && !now.Before(g.watched.due) {", New: "if false {"},
	}},
	{Name: "a hold outlives its deadline", Entry: "F20", Within: 1000, Patches: []Patch{
		{File: "lock/leasecheck.go", Old: "	if g.remaining() <= 0 {", New: "	if g.remaining() <= 0 && g.s.Err() != nil {"},
		{File: "lock/watchdog.go", Old: "	left = g.remaining()\n", New: "	left = max(g.remaining(), 1e9)\n"},
	}},
	{Name: "release does not wait", Entry: "F23", Within: 50, Patches: []Patch{
		{File: "lock/fairlock.go", Old: "		err := g.delete(ctx, node, announced)\n", New: "		var err error\n		g.discard()\n"},
	}},
	{Name: "a release that was not confirmed is forgotten", Entry: "F23", Within: 100, Patches: []Patch{
		{File: "lock/release.go", Old: "	g.discard()\n	return &LockError{\"release\"", New: "	return &LockError{\"release\""},
	}},
	{Name: "the end of a write node counts as the end of its holder", Entry: "F33", Within: 1000, Patches: []Patch{
		{File: "lock/internal/queue/rules.go", Old: "return strings.Contains(name, writeWord)", New: "return strings.Contains(name, writeWord+writeWord)"},
	}},
	{Name: "one permit more than there are", Entry: "F34", Within: 1000, Patches: []Patch{
		{File: "lock/internal/queue/rules.go", Old: "if place < q.Permits {", New: "if place <= q.Permits {"},
	}},
	{Name: "sessions expire too early", Entry: "F46", Within: 1000, Patches: []Patch{
		{File: "internal/server/session/table.go", Old: "return ((now+timeout)/t.tick + 1) * t.tick", New: "return ((now+timeout/2)/t.tick + 1) * t.tick"},
	}},
	{Name: "writes are answered before they are synced", Entry: "F44", Within: 1000, Short: true, Patches: []Patch{
		{File: "server/commit.go", Old: "	if err := s.store.Sync(); err != nil {\n		return err\n	}\n	took", New: "	took"},
		{File: "server/commit.go", Old: "		c.dirty = false\n		if c != except {\n", New: "		c.dirty = false\n		{\n"},
		{File: "server/commit.go", Old: "	clear(s.dirty)\n", New: "	s.store.Sync()\n	clear(s.dirty)\n"},
	}},
	{Name: "a snapshot is loaded without the log behind it", Entry: "F44", Within: 100, Patches: []Patch{
		{File: "internal/server/load/load.go", Old: "	l.Tree.Apply(t, &l.outcome)\n", New: ""},
	}},
	{Name: "expired sessions keep their ephemerals after a restart", Entry: "F44", Within: 1000, Patches: []Patch{
		{File: "internal/server/load/load.go", Old: "		delete(l.Sessions, t.Session)\n", New: "		delete(l.Sessions, t.Session)\n		return nil\n"},
		{File: "internal/server/load/load.go", Old: "		_, ok := l.Sessions[id]\n		return ok\n", New: "		return true\n"},
	}},
	{Name: "requests of the old connection are carried out after the session has moved", Entry: "F45", Within: 1000, Patches: []Patch{
		{File: "server/commit.go", Old: "		if c.ended || !s.owns(c) {", New: "		if c.ended {"},
	}},
}
