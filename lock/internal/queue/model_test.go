package queue

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// The model of the queue: some contenders for one lock, a server that applies one transaction after the other, and clients
// that each see a prefix of them. All orders of steps are explored, the shortest first. What a contender concludes from a
// listing or an event is decided by the rules of this package; the steps around them are those of package lock.
//
// In every state that can be reached:
//
//   - no two contenders hold the lock that exclude each other, and no more than there are permits;
//   - no contender is granted while an earlier claim that it has to wait for is there;
//   - a contender that waits and has seen everything watches a claim that is there, and has to wait;
//   - an exclusive hold begins only after the delay of each hold that was lost, and no delay of a released one is waited for.

var large = flag.Bool("model.large", false, "explore the larger worlds, too")

// modelLog is how many transactions a world may have.
const modelLog = 14

// modelStatesMax bounds the memory of one exploration.
const modelStatesMax = 20_000_000

// A contenderKind is what a contender of the model is.
type contenderKind byte

const (
	mutexKind contenderKind = iota
	writerKind
	readerKind
	permitKind
)

func (k contenderKind) rules() *Rules {
	return []*Rules{&MutexRules, &WriteRules, &ReadRules, &PermitRules}[k]
}

// A world says which contenders there are, and what may go wrong how often.
type modelWorld struct {
	kinds      []contenderKind
	permits    int
	delay      bool  // exclusive holders leave delay markers
	first      int32 // number of the first claim
	lost       int8  // answers to creates
	reconnects int8
	deaths     int8 // of sessions
	giveUps    int8
	downgrades int8
}

// modelRules are the rules that are explored. The zero value is those of this package; each field takes one thing away.
type modelRules struct {
	name           string
	endFrees       bool // the end of the claim ahead grants, whatever ended it
	endIsRelease   bool // the end of a write claim is never taken for a downgrade
	giveUpRings    bool // a waiter that gives up makes a release marker too
	missingIsThere bool // a claim that is gone when the watch is set is waited for
	noListing      bool // after an event that does not grant, the contender goes on waiting
	noSync         bool // after a lost answer the directory is listed without a sync
	markerBehind   bool // the delay marker is deleted behind the claim
	markerIgnored  bool // delay markers are not waited for
	oneAhead       bool // a claim to a permit waits for the nearest claim only
}

var modelMutations = []modelRules{
	{name: "the end of the claim ahead grants, whatever ended it", endFrees: true},
	{name: "a downgrade is taken for a release", endIsRelease: true},
	{name: "a waiter that gives up makes a release marker", giveUpRings: true},
	{name: "a claim that is gone when the watch is set is waited for", missingIsThere: true},
	{name: "an event that does not grant is not followed by a listing", noListing: true},
	{name: "no sync ahead of the listing after a lost answer", noSync: true},
	{name: "the delay marker is deleted behind the claim", markerBehind: true},
	{name: "delay markers are not waited for", markerIgnored: true},
	{name: "a permit waits for the nearest claim only", oneAhead: true},
}

// Transactions, as kind and contender in one byte.
const (
	txnCreate    byte = iota << 3 // the claim
	txnEnd                        // all claims of the contender go, without an announcement
	txnRelease                    // the newest claim goes, with a release marker
	txnDelete                     // the newest claim goes, without one
	txnDowngrade                  // a shared claim takes the place of the write claim
	txnMark                       // the delay marker
	txnUnmark                     // it goes
)

type phase byte

const (
	isIdle     phase = iota
	isUnsure         // the create has no answer
	isListing        // the next step is a listing
	isArming         // the next step sets the watches
	isWaiting        // for an event
	isMarking        // the next step looks for delay markers
	isDelaying       // waits for a delay to pass
	isHolding
	isEnding // has deleted the first of delay marker and claim
	isLosing // the hold has ended, and the session is about to expire
	isDone
	isReleased
	isDead
)

// A contender of the model.
type modelContender struct {
	phase  phase
	seen   int8 // transactions that the server which it is connected to has applied
	listed int8 // transactions that the last listing shows
	unsure bool // there may be a claim that it does not know of
	waited bool
	moved  bool // it has downgraded
	open   bool // the outcome of the downgrade is unknown to it
}

type modelState struct {
	log        [modelLog]byte
	n          int8
	c          [4]modelContender
	elapsed    byte // contenders whose delay has been waited for
	lost       int8 // what may yet go wrong
	reconnects int8
	deaths     int8
	giveUps    int8
	downgrades int8
}

// A modelClaim is a claim in the tree.
type modelClaim struct {
	who    byte
	number int8 // counted from the first
	moved  bool
}

// A modelTree is the directory after some transactions.
type modelTree struct {
	claims [6]modelClaim
	n      int8
	marks  byte // contenders with a delay marker
}

func (s *modelState) tree(upTo int8) modelTree {
	var t modelTree
	created := int8(0)
	for _, txn := range s.log[:upTo] {
		who := txn & 7
		newest := int8(-1)
		for i := range t.n {
			if t.claims[i].who == who {
				newest = i
			}
		}
		remove := func(i int8) {
			copy(t.claims[i:], t.claims[i+1:t.n])
			t.n--
			t.claims[t.n] = modelClaim{}
		}
		switch txn &^ 7 {
		case txnCreate:
			t.claims[t.n] = modelClaim{who: who, number: created}
			t.n++
			created++
		case txnEnd:
			for i := t.n - 1; i >= 0; i-- {
				if t.claims[i].who == who {
					remove(i)
				}
			}
		case txnRelease, txnDelete:
			if newest >= 0 {
				remove(newest)
			}
		case txnDowngrade:
			if newest >= 0 {
				t.claims[newest].moved = true
			}
		case txnMark:
			t.marks |= 1 << who
		case txnUnmark:
			t.marks &^= 1 << who
		}
	}
	return t
}

// at returns the claim of a contender, the newest one.
func (t *modelTree) at(who byte) (modelClaim, bool) {
	for i := t.n - 1; i >= 0; i-- {
		if t.claims[i].who == who {
			return t.claims[i], true
		}
	}
	return modelClaim{}, false
}

func (t *modelTree) has(c modelClaim) bool { return slices.Contains(t.claims[:t.n], c) }

// A modelWatch is a claim that is waited for, and what its end means.
type modelWatch struct {
	claim         modelClaim
	frees, marker bool
}

// A modelView is what a listing shows a contender.
type modelView struct {
	there bool
	waits []modelWatch
}

type viewKey struct {
	tree modelTree
	who  byte
}

// A modelRun explores one world by some rules.
type modelRun struct {
	w     modelWorld
	r     modelRules
	views map[viewKey]modelView
}

func modelID(who byte) ID { return ID(fmt.Sprintf("%032x", who+1)) }

// name returns the name of a claim's znode.
func (m *modelRun) name(c modelClaim) string {
	word := m.w.kinds[c.who].rules().Word
	if c.moved {
		word = ReadWord
	}
	return modelID(c.who).Prefix(word) + fmt.Sprintf("%010d", m.w.first+int32(c.number))
}

// names returns the listing of a tree.
func (m *modelRun) names(t modelTree) []string {
	var names []string
	for i := t.n - 1; i >= 0; i-- { // in an order that is not that of the queue
		names = append(names, m.name(t.claims[i]))
	}
	for who := range m.w.kinds {
		if t.marks&(1<<who) != 0 {
			names = append(names, modelID(byte(who)).DelayMarker())
		}
	}
	return names
}

// view returns what a contender concludes from a listing.
func (m *modelRun) view(t modelTree, who byte) modelView {
	key := viewKey{t, who}
	v, ok := m.views[key]
	if ok {
		return v
	}
	rules := m.w.kinds[who].rules()
	q := Parse(m.names(t), rules.Heeds)
	q.Permits = m.w.permits
	if places := q.PlacesOf(modelID(who)); len(places) > 0 {
		v.there = true
		place := places[len(places)-1]
		waits := rules.WaitsFor(q, place)
		if m.r.oneAhead && len(waits) > 1 {
			waits = waits[:1]
		}
		for _, at := range waits {
			w := modelWatch{frees: rules.FreedBy(q, at, place, false)}
			if m.r.endIsRelease && !w.frees {
				rest := q
				rest.Claims = slices.Delete(slices.Clone(q.Claims), at, at+1)
				w.frees = len(rules.WaitsFor(rest, place-1)) == 0
			}
			w.frees = w.frees || m.r.endFrees
			if _, ours := IDOf(q.Claims[at].Name); ours && !w.frees {
				w.marker = rules.FreedBy(q, at, place, true)
			}
			for i := range t.n {
				if m.name(t.claims[i]) == q.Claims[at].Name {
					w.claim = t.claims[i]
				}
			}
			v.waits = append(v.waits, w)
		}
	}
	m.views[key] = v
	return v
}

// A modelStep is a step that may come next.
type modelStep struct {
	what string
	who  byte
	next modelState
	bad  string // what is wrong with it
}

func (s modelState) with(txn, who byte) modelState {
	s.log[s.n] = txn | who
	s.n++
	return s
}

// steps returns all steps from a state.
func (m *modelRun) steps(s modelState) []modelStep {
	var all []modelStep
	for i := range m.w.kinds {
		who := byte(i)
		m.stepsOf(s, who, func(what string, next modelState) {
			st := modelStep{what: what, who: who, next: next}
			if c := &st.next.c[who]; c.phase == isHolding && s.c[who].phase != isHolding {
				st.bad = m.granted(&st.next, who)
				c.seen, c.listed, c.unsure = 0, 0, false // no more used
			}
			all = append(all, st)
		})
	}
	return all
}

func (m *modelRun) stepsOf(s modelState, who byte, step func(string, modelState)) {
	c := s.c[who]
	set := func(next modelState, p phase, change func(c *modelContender, s *modelState)) modelState {
		n := &next.c[who]
		n.phase = p
		if change != nil {
			change(n, &next)
		}
		if p >= isDone {
			*n = modelContender{phase: p}
		}
		return next
	}
	upToDate := func(c *modelContender, s *modelState) { c.seen = s.n }
	switch c.phase {
	case isIdle:
		if s.n+4 > modelLog {
			return
		}
		step("creates its claim", set(s.with(txnCreate, who), isListing, upToDate))
		if s.lost > 0 {
			next := s.with(txnCreate, who)
			next.lost--
			step("creates its claim, and the answer is lost", set(next, isUnsure, func(c *modelContender, _ *modelState) { c.unsure = true }))
		}
	case isUnsure:
		step("connects again", set(s, isListing, func(c *modelContender, s *modelState) {
			if !m.r.noSync {
				c.seen = s.n
			}
		}))
	case isListing:
		v := m.view(s.tree(c.seen), who)
		switch {
		case !v.there && c.unsure:
			step("does not find its claim", set(s, isIdle, func(c *modelContender, _ *modelState) { c.unsure = false }))
		case !v.there:
			step("does not find its claim any more", set(s, isDone, nil))
		case len(v.waits) == 0:
			m.take("lists, and nothing is ahead", s, who, step)
		default:
			step("lists, and has to wait", set(s, isArming, func(c *modelContender, _ *modelState) { c.listed, c.waited, c.unsure = c.seen, true, false }))
		}
	case isArming:
		t, v := s.tree(c.seen), m.view(s.tree(c.listed), who)
		missing := slices.ContainsFunc(v.waits, func(w modelWatch) bool { return !t.has(w.claim) })
		_, own := t.at(who)
		switch {
		case !own:
			step("does not find its claim any more", set(s, isDone, nil))
		case missing && !m.r.missingIsThere:
			step("sets watches, and lists again", set(s, isListing, nil))
		default:
			step("sets watches", set(s, isWaiting, nil))
		}
	case isMarking:
		t := s.tree(c.seen)
		orphans := Orphans(m.names(t))
		claim, own := t.at(who)
		switch {
		case !own:
			step("does not find its claim any more", set(s, isDone, nil))
		case len(orphans) == 0 || m.r.markerIgnored:
			if m.w.kinds[who].rules().Mode == Shared {
				step("holds the lock", set(s, isHolding, nil))
				break
			}
			if now := s.tree(s.n); !now.has(claim) {
				step("makes no delay marker, for its claim is gone", set(s, isDone, nil))
				break
			}
			step("makes its delay marker, and holds the lock", set(s.with(txnMark, who), isHolding, upToDate))
		default:
			step("waits for a delay", set(s, isDelaying, func(c *modelContender, _ *modelState) { c.listed = c.seen }))
		}
	case isDelaying:
		t := s.tree(c.listed)
		next := s
		for _, name := range Orphans(m.names(t)) {
			for other := range m.w.kinds {
				if modelID(byte(other)).DelayMarker() == name {
					next = next.with(txnUnmark, byte(other))
					next.elapsed |= 1 << other
				}
			}
		}
		step("has waited for the delay", set(next, isMarking, upToDate))
	case isHolding:
		m.endHold(s, who, step, set)
		if s.downgrades > 0 && m.w.kinds[who].rules().Moves() && !c.moved {
			next := s.with(txnDowngrade, who)
			next.downgrades--
			step("downgrades", set(next, isHolding, func(c *modelContender, _ *modelState) { c.moved = true }))
			step("downgrades, and the answer is lost", set(next, isHolding, func(c *modelContender, _ *modelState) { c.moved, c.open = true, true }))
		}
		if s.deaths > 0 {
			next := s
			next.deaths--
			step("loses the lock", set(next, isLosing, nil))
		}
	case isEnding:
		if m.r.markerBehind {
			step("deletes its delay marker", set(s.with(txnUnmark, who), isReleased, nil))
		} else {
			step("releases the lock", set(s.with(m.release(c, who), who), isReleased, nil))
		}
	case isLosing:
		step("expires", set(s.with(txnEnd, who), isDead, nil))
	}
	if c.phase >= isListing && c.phase <= isDelaying || c.phase == isUnsure {
		if c.seen < s.n && c.phase != isUnsure {
			m.advance(s, who, step, set)
		}
		if s.reconnects > 0 && c.phase != isUnsure && c.phase != isDelaying {
			next := s
			next.reconnects--
			p := isListing
			if c.phase == isMarking {
				p = isMarking
			}
			step("connects again", set(next, p, upToDate))
		}
		if s.deaths > 0 {
			next := s.with(txnEnd, who)
			next.deaths--
			step("expires", set(next, isDead, nil))
		}
		if s.giveUps > 0 && (c.phase == isArming || c.phase == isWaiting) {
			txn := txnDelete
			if m.r.giveUpRings {
				txn = txnRelease
			}
			next := s.with(txn, who)
			next.giveUps--
			step("gives up", set(next, isDone, nil))
		}
	}
}

// take has a contender that is admitted hold the lock, after the delay markers of others are waited for and its own is made.
func (m *modelRun) take(what string, s modelState, who byte, step func(string, modelState)) {
	c := &s.c[who]
	if !m.w.delay {
		c.phase = isHolding
		step(what+": it holds the lock", s)
		return
	}
	c.phase = isMarking
	step(what, s)
}

// advance shows a contender the next transaction.
func (m *modelRun) advance(s modelState, who byte, step func(string, modelState), set func(modelState, phase, func(*modelContender, *modelState)) modelState) {
	c := s.c[who]
	seen := func(c *modelContender, _ *modelState) { c.seen++ }
	if c.phase == isDelaying {
		step("sees a change", set(s, isMarking, seen))
		return
	}
	if c.phase != isWaiting {
		step("sees a transaction", set(s, c.phase, seen))
		return
	}
	v, t := m.view(s.tree(c.listed), who), s.tree(c.seen+1)
	if _, own := t.at(who); !own {
		step("sees that its claim is gone", set(s, isDone, nil))
		return
	}
	before := s.tree(c.seen)
	for _, w := range v.waits {
		if !before.has(w.claim) || t.has(w.claim) {
			continue
		}
		announced := w.marker && s.log[c.seen]&^7 == txnRelease
		next := set(s, isListing, seen)
		switch {
		case w.frees || announced:
			m.take("sees that the claim ahead is gone", next, who, step)
		case m.r.noListing:
			step("sees that the claim ahead is gone", set(next, isWaiting, nil))
		default:
			step("sees that the claim ahead is gone, and lists again", next)
		}
		return
	}
	step("sees a transaction", set(s, isWaiting, seen))
}

// release returns the transaction that deletes the claim of a holder.
func (m *modelRun) release(c modelContender, who byte) byte {
	if !c.open && m.w.kinds[who].rules().NeedsReleaseMarker(c.waited, c.moved) {
		return txnRelease
	}
	return txnDelete
}

// endHold adds the steps by which a holder releases the lock.
func (m *modelRun) endHold(s modelState, who byte, step func(string, modelState), set func(modelState, phase, func(*modelContender, *modelState)) modelState) {
	c := s.c[who]
	switch {
	case !m.w.delay || m.w.kinds[who].rules().Mode == Shared:
		step("releases the lock", set(s.with(m.release(c, who), who), isReleased, nil))
	case m.r.markerBehind:
		step("releases the lock", set(s.with(m.release(c, who), who), isEnding, nil))
	default:
		step("deletes its delay marker", set(s.with(txnUnmark, who), isEnding, nil))
	}
}

// granted returns what is wrong with a contender's hold at the moment at which it begins.
func (m *modelRun) granted(s *modelState, who byte) string {
	t := s.tree(s.n)
	own, there := t.at(who)
	ahead := 0
	for i := range t.n {
		other := t.claims[i]
		if !there || other.who == who || other.number > own.number {
			continue
		}
		ahead++
		if m.w.permits == 0 && conflict(m.kind(other), m.kind(own)) {
			return "it holds the lock although an earlier claim is there that excludes it"
		}
	}
	if m.w.permits > 0 && ahead >= m.w.permits {
		return "it holds a permit although there are as many claims ahead as permits"
	}
	if late := t.marks &^ (1 << who) &^ s.elapsed; m.w.delay && m.kind(own) != Shared && late != 0 {
		for other := range m.w.kinds {
			if p := s.c[other].phase; late&(1<<other) != 0 && p == isDead {
				return "it holds the lock before the delay of a lost hold has passed"
			}
		}
	}
	return ""
}

func (m *modelRun) kind(c modelClaim) Mode {
	if c.moved {
		return Shared
	}
	return m.w.kinds[c.who].rules().Mode
}

// wrong returns what is wrong with a state.
func (m *modelRun) wrong(s *modelState) string {
	holders, exclusive := 0, 0
	for i, k := range m.w.kinds {
		c := s.c[i]
		if c.phase == isHolding {
			holders++
			if k.rules().Mode == Exclusive && !c.moved {
				exclusive++
			}
		}
		if c.phase == isDelaying {
			for other := range m.w.kinds {
				t := s.tree(c.listed)
				if _, claimed := t.at(byte(other)); t.marks&(1<<other) != 0 && !claimed && (s.c[other].phase == isReleased || s.c[other].phase == isEnding) {
					return "a contender waits for the delay of a hold that was released"
				}
			}
		}
	}
	switch {
	case m.w.permits == 0 && exclusive > 0 && holders > 1:
		return "two contenders hold the lock"
	case m.w.permits > 0 && holders > m.w.permits:
		return "more contenders hold permits than there are"
	}
	for i := range m.w.kinds {
		switch c := s.c[i]; {
		case c.phase == isWaiting && c.seen < s.n, c.phase >= isUnsure && c.phase <= isArming, c.phase == isMarking, c.phase == isEnding, c.phase == isLosing:
			return "" // not at rest
		}
	}
	for i := range m.w.kinds {
		if s.c[i].phase != isWaiting {
			continue
		}
		t := s.tree(s.n)
		v := m.view(s.tree(s.c[i].listed), byte(i))
		if !slices.ContainsFunc(v.waits, func(w modelWatch) bool { return t.has(w.claim) }) {
			return "a contender waits for claims that are gone"
		}
		if len(m.view(t, byte(i)).waits) == 0 {
			return "a contender waits although nothing is ahead of it"
		}
		owned := func(c modelClaim) bool {
			p := s.c[c.who].phase
			return p != isDone && p != isReleased && p != isDead
		}
		if slices.ContainsFunc(t.claims[:t.n], func(c modelClaim) bool { last, _ := t.at(c.who); return !owned(c) || c != last }) {
			return "a contender waits, and a claim is there that no contender knows of"
		}
	}
	return ""
}

// explore goes through all states of a world. way is the shortest way to one with something wrong, nil if there is none.
func explore(w modelWorld, r modelRules) (states int, way []string) {
	m := &modelRun{w: w, r: r, views: map[viewKey]modelView{}}
	type from struct {
		parent int32
		who    byte
		what   string
	}
	start := modelState{lost: w.lost, reconnects: w.reconnects, deaths: w.deaths, giveUps: w.giveUps, downgrades: w.downgrades}
	index := map[modelState]struct{}{start: {}}
	all, ways := []modelState{start}, []from{{parent: -1}}
	path := func(at int32, last ...string) []string {
		for ; ways[at].parent >= 0; at = ways[at].parent {
			last = append([]string{fmt.Sprintf("%c %s", 'A'+ways[at].who, ways[at].what)}, last...)
		}
		return last
	}
	for i := 0; i < len(all) && i < modelStatesMax; i++ {
		if bad := m.wrong(&all[i]); bad != "" {
			return len(all), path(int32(i), bad)
		}
		for _, st := range m.steps(all[i]) {
			if st.bad != "" {
				return len(all), path(int32(i), fmt.Sprintf("%c %s", 'A'+st.who, st.what), st.bad)
			}
			if _, known := index[st.next]; !known {
				index[st.next] = struct{}{}
				all, ways = append(all, st.next), append(ways, from{int32(i), st.who, st.what})
			}
		}
	}
	if len(all) >= modelStatesMax {
		return len(all), []string{fmt.Sprintf("more than %d states", modelStatesMax)}
	}
	return len(all), nil
}

func modelWorlds() []modelWorld {
	m, w, r, p := mutexKind, writerKind, readerKind, permitKind
	worlds := []modelWorld{
		{kinds: []contenderKind{m, m, m}, giveUps: 1, deaths: 1, reconnects: 1},
		{kinds: []contenderKind{m, m, m}, lost: 1, giveUps: 1, first: math.MaxInt32 - 1},
		{kinds: []contenderKind{w, w, r}, downgrades: 1, giveUps: 1},
		{kinds: []contenderKind{w, r, r}, downgrades: 1, deaths: 1},
		{kinds: []contenderKind{w, w, m}, downgrades: 2, reconnects: 1},
		{kinds: []contenderKind{m, m}, delay: true, deaths: 1, giveUps: 1, reconnects: 1, lost: 1},
		{kinds: []contenderKind{w, w, r}, delay: true, deaths: 1},
		{kinds: []contenderKind{p, p, p}, permits: 1, giveUps: 1, deaths: 1},
		{kinds: []contenderKind{p, p, p, p}, permits: 2, giveUps: 1},
	}
	if *large {
		worlds = append(worlds,
			modelWorld{kinds: []contenderKind{m, m, m}, giveUps: 1, deaths: 1, reconnects: 2, lost: 1},
			modelWorld{kinds: []contenderKind{w, w, r}, downgrades: 1, giveUps: 1, deaths: 1, reconnects: 1},
			modelWorld{kinds: []contenderKind{w, w, w}, downgrades: 2, giveUps: 1, deaths: 1},
			modelWorld{kinds: []contenderKind{m, m, m}, delay: true, deaths: 2, giveUps: 1},
			modelWorld{kinds: []contenderKind{w, r, w, m}, downgrades: 1, giveUps: 1},
			modelWorld{kinds: []contenderKind{p, p, p, p}, permits: 2, giveUps: 1, deaths: 1},
		)
	}
	return worlds
}

// F05, F06, F09, F25: no order of steps has two holders, an overtaken contender or a wait that does not end.
func TestModel(t *testing.T) {
	total, violations := 0, 0
	for _, w := range modelWorlds() {
		states, way := explore(w, modelRules{})
		total += states
		if way != nil {
			violations++
			t.Errorf("%+v:\n  %s", w, strings.Join(way, "\n  "))
		}
		t.Logf("%+v: %d states", w, states)
	}
	t.Logf("queue-model: worlds=%d states=%d violations=%d", len(modelWorlds()), total, violations)
}

// The model finds what goes wrong with each rule that is not the right one.
func TestModelFindsWrongRules(t *testing.T) {
	for _, r := range modelMutations {
		found := false
		for _, w := range modelWorlds() {
			if states, way := explore(w, r); way != nil {
				found = true
				t.Logf("%s: after %d states:\n  %s", r.name, states, strings.Join(way, "\n  "))
				break
			}
		}
		if !found {
			t.Errorf("%s: nothing was found", r.name)
		}
	}
}
