package queue

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/zk"
)

// queues are queues by directory.
type queues map[string]*ReadQueue

func (ls queues) load(dir string) (*ReadQueue, error) {
	if l := ls[dir]; l != nil {
		return l, nil
	}
	return &ReadQueue{}, nil
}

func (ls queues) Find(id string) *Entry { l, _ := ls.load(zk.Parent(id)); return l.Find(id) }

// parseLines reads lines of the form "/a: p q<r/b/x s", each a directory and its claims in order. A claim is
// the name of its entry, with "<" and the hold ids that it is under, separated by commas. Directories whose
// names begin with "rw" have claims "r…" that are shared, those with "sem" a number of permits. The entry's
// age is its place in the text.
func parseLines(text string) queues {
	ls := queues{}
	age := int64(0)
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		dir, claims, _ := strings.Cut(strings.TrimSpace(line), ": ")
		q, of := Queue{}, []*Entry(nil)
		fmt.Sscanf(dir, "/sem%d", &q.Permits)
		entries := map[string]*Entry{}
		for i, word := range strings.Fields(claims) {
			name, under, _ := strings.Cut(word, "<")
			k := Exclusive
			switch {
			case strings.HasPrefix(dir, "/sem"):
				k = Permit
			case strings.HasPrefix(dir, "/rw") && name[0] == 'r':
				k = Shared
			}
			p := entries[name]
			if p == nil {
				age++
				p = &Entry{HoldID: dir + "/" + name, Dir: dir, Contender: Contender{Node: dir + "/" + name, Token: age}}
				if under != "" {
					p.Under = strings.Split(under, ",")
				}
				p.Passes = strings.HasSuffix(name, "!")
				entries[name] = p
			}
			q.Claims = append(q.Claims, Claim{int32(i), k, name})
			of = append(of, p)
		}
		ls[dir] = NewReadQueue(q, of)
	}
	return ls
}

func none(*Entry) bool { return false }

func TestCycleFinder(t *testing.T) {
	for _, c := range []struct{ Name, lines, Self, want string }{
		{"two", `
			/a: h1 w2</b/h2
			/b: h2 w1</a/h1`, "/b/w1", "w1→h2 w2→h1"},
		{"a chain is no cycle", `
			/a: h1 w2</b/h2
			/b: h2 w1`, "/b/w1", ""},
		{"three", `
			/a: h1 w3</c/h3
			/b: h2 w1</a/h1
			/c: h3 w2</b/h2`, "/a/w3", "w3→h1 w1→h2 w2→h3"},
		{"behind a cycle, not in it", `
			/a: h1 w2</b/h2 w4</d/h4
			/b: h2 w1</a/h1
			/d: h4 x`, "/a/w4", ""},
		{"what is held is not there any more", `
			/a: w2</b/h2
			/b: h2 w1</a/h1`, "/b/w1", ""},
		{"readers share", `
			/rwa: r1 r2</b/h2
			/b: h2 w1</rwa/r1`, "/b/w1", ""},
		{"a reader behind a writer behind a reader", `
			/rwa: r1 w9 r2</b/h2
			/b: h2 w1</rwa/r1`, "/b/w1", "w1→h2 r2→w9 w9→r1"},
		{"through our place in the queue", `
			/rwa: r1 w9 r2</b/h2
			/b: h2 w1</rwa/r1`, "/rwa/w9", "w9→r1 w1→h2 r2→w9"},
		{"nothing behind a passing claim", `
			/rwa: r1 w9! r2</b/h2
			/b: h2 w1</rwa/r1`, "/b/w1", ""},
		{"one of two permits is stuck", `
			/sem2: p q w2</b/h2
			/b: h2 w1</sem2/p`, "/b/w1", ""},
		{"both permits are stuck", `
			/sem2: p q w2</b/h2
			/b: h2 w1</sem2/p w3</sem2/q`, "/b/w3", "w3→h2 w2→q"},
		{"both permits are one's", `
			/sem2: p q w2</b/h2
			/b: h2 w1</sem2/p,/sem2/q`, "/b/w1", "w1→h2 w2→q"},
		{"two permits at once", `
			/sem2: p w2</b/h2 w2
			/b: h2 w1</sem2/p`, "/b/w1", "w1→h2 w2→p"},
		{"permits of a number that is not known", `
			/sem: p w2</b/h2
			/b: h2 w1</sem/p`, "/b/w1", ""},
		{"a claim that waits is not held yet", `
			/a: c w1 w2</b/h2
			/b: h2 w3</a/w1`, "/a/w2", ""},
		{"waiting for oneself", `
			/a: h1 w1</a/h1`, "/a/w1", "w1→h1"},
	} {
		ls := parseLines(c.lines)
		k := CycleFinder{Load: ls.load, Skip: none, Self: ls.Find(c.Self)}
		d, err := k.Cycle()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range d {
			got = append(got, zk.Base(w.Waiter.Node)+"→"+zk.Base(w.For.Node))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: from %s found %q, want %q", c.Name, c.Self, s, c.want)
		}
	}
}

// A line that cannot be read is an error, not the absence of a cycle.
func TestCycleFinderUnreadable(t *testing.T) {
	ls := parseLines("/a: h1 w2</b/h2\n/b: h2 w1</a/h1")
	want := errors.New("unreadable")
	k := CycleFinder{Skip: none, Self: ls.Find("/b/w1"), Load: func(dir string) (*ReadQueue, error) {
		if dir == "/a" {
			return nil, want
		}
		return ls.load(dir)
	}}
	if _, err := k.Cycle(); err != want {
		t.Errorf("error %v, want %v", err, want)
	}
}

// randomLines returns a few lines of few claims, whose owners hold what chance says.
func randomLines(r *rand.Rand) queues {
	var text strings.Builder
	dirs := []string{"/a", "/b", "/rwc", "/rwd", "/sem1", "/sem2"}
	dirs = dirs[r.IntN(3):][:2+r.IntN(2)]
	var ids []string
	words := map[string][]string{}
	for _, dir := range dirs {
		for i := range 1 + r.IntN(4) {
			name := fmt.Sprintf("%c%d", "rw"[r.IntN(2)], i)
			if r.IntN(12) == 0 {
				name += "!"
			}
			words[dir] = append(words[dir], name)
			ids = append(ids, dir+"/"+name)
		}
	}
	for _, dir := range dirs {
		text.WriteString(dir + ": ")
		for _, name := range words[dir] {
			var under []string
			for range r.IntN(3) {
				under = append(under, ids[r.IntN(len(ids))])
			}
			text.WriteString(name)
			if under != nil {
				text.WriteString("<" + strings.Join(under, ","))
			}
			text.WriteString(" ")
			if strings.HasPrefix(dir, "/sem") && r.IntN(4) == 0 { // two at once
				text.WriteString(name + " ")
			}
		}
		text.WriteString("\n")
	}
	return parseLines(text.String())
}

// A twin is the naive form of the CycleFinder: it tries all sets of waiting entries for one in which each waits for others
// of it.
type twin struct {
	all  []*Entry
	ls   queues
	Skip func(*Entry) bool
	Self *Entry
}

// waits reports whether p is kept waiting if those in set (a bit each) wait for ever.
func (w *twin) Waits(p *Entry, set int) bool {
	if p.Passes || p != w.Self && w.Skip(p) {
		return false
	}
	l := w.ls[p.Dir]
	claims := 0
	for i, of := range l.Of[:p.last] {
		if p.mode == Permit && of == p || i < p.first && w.stuckFor(p, of, set) {
			claims++
		}
	}
	if p.mode == Permit {
		return l.Queue.Permits > 0 && claims >= l.Queue.Permits
	}
	return claims > 0
}

// stuckFor reports whether other, which is ahead of p, keeps it waiting for ever if those in set do.
func (w *twin) stuckFor(p, other *Entry, set int) bool {
	if p.mode != Permit && p.mode == Shared && other.mode == Shared {
		return false
	}
	for i, q := range w.all {
		if set&(1<<i) != 0 && (q == other || slices.Contains(q.Under, other.HoldID)) {
			return true
		}
	}
	return false
}

// cycle reports whether self is in a cycle.
func (w *twin) Cycle() bool {
	n := len(w.all)
	all := 1<<n - 1
	// Which entry may wait for which, if all that can wait do, and however far.
	universe := 0
	far := w.closure(func(p *Entry) bool { return w.Waits(p, all) }, all)
	at := slices.Index(w.all, w.Self)
	for i := range w.all {
		if far[i][at] || i == at {
			universe |= 1 << i
		}
	}
	best := 0
	for set := range all + 1 {
		good := set&^universe == 0
		for i, p := range w.all {
			good = good && (set&(1<<i) == 0 || w.Waits(p, set))
		}
		if good {
			best |= set
		}
	}
	if best&(1<<at) == 0 {
		return false
	}
	in := func(p *Entry) bool { return best&(1<<slices.Index(w.all, p)) != 0 }
	return w.closure(in, best)[at][at]
}

// closure says which of the waiting entries waits for which, however far, with those in set stuck. An entry that is held
// waits as the entry of its owner does.
func (w *twin) closure(waits func(*Entry) bool, set int) [][]bool {
	n := len(w.all)
	far := make([][]bool, n)
	for i, p := range w.all {
		far[i] = make([]bool, n)
		for j, q := range w.all {
			ahead := q.Dir == p.Dir && q.first < p.first && waits(p) && w.stuckFor(p, q, set)
			holder := waits(q) && slices.Contains(q.Under, p.HoldID)
			far[i][j] = ahead || holder
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				far[i][j] = far[i][j] || far[i][k] && far[k][j]
			}
		}
	}
	return far
}

func (ls queues) String() string {
	var b strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(ls)) {
		fmt.Fprintf(&b, "\n%s:", dir)
		for i, p := range ls[dir].Of {
			fmt.Fprintf(&b, " %s", ls[dir].Queue.Claims[i].Name)
			if len(p.Under) > 0 {
				fmt.Fprintf(&b, "<%s", strings.Join(p.Under, ","))
			}
		}
	}
	return b.String()
}

// survivors lets all entries go on that can, for as long as there is one: a granted entry leaves unless its owner waits
// elsewhere, and an entry that waits for ever stays. Self never gives up.
func survivors(ls queues) map[*Entry]bool {
	there := map[*Entry]bool{}
	for _, l := range ls {
		for _, p := range l.Of {
			there[p] = true
		}
	}
	granted := func(p *Entry) bool {
		l := ls[p.Dir]
		rest := Queue{Permits: l.Queue.Permits}
		places := []int{}
		for i, of := range l.Of {
			if there[of] {
				if of == p {
					places = append(places, len(rest.Claims))
				}
				rest.Claims = append(rest.Claims, l.Queue.Claims[i])
			}
		}
		last := places[len(places)-1]
		waits := waitForConflict(rest, last)
		if l.Queue.Claims[0].Mode == Permit {
			waits = nil
			if last >= max(1, l.Queue.Permits) {
				waits = []int{0}
			}
		} else {
			waits = slices.DeleteFunc(waits, func(i int) bool { return i >= places[0] })
		}
		return len(waits) == 0
	}
	occupied := func(p *Entry) bool { // its owner waits, with another entry
		for w := range there {
			if slices.Contains(w.Under, p.HoldID) && !w.Passes && !granted(w) {
				return true
			}
		}
		return false
	}
	for more := true; more; {
		more = false
		for p := range there {
			if g := granted(p); g && !occupied(p) || !g && p.Passes {
				delete(there, p)
				more = true
			}
		}
	}
	return there
}

func finderTwin(t *testing.T, seed uint64) (cycles bool) {
	r := rand.New(rand.NewPCG(seed, 0))
	ls := randomLines(r)
	var all []*Entry
	for _, dir := range slices.Sorted(maps.Keys(ls)) {
		all = append(all, ls[dir].Entries...)
	}
	for _, p := range all { // what waits is not held
		p.Under = slices.DeleteFunc(p.Under, func(id string) bool {
			q := ls.Find(id)
			return q.isBlocked(func(*Entry) bool { return true })
		})
	}
	self := all[r.IntN(len(all))]
	self.Passes = false
	skip := none
	if r.IntN(2) == 0 {
		skip = func(p *Entry) bool { return p.YoungerThan(self) }
	}
	k := CycleFinder{Load: ls.load, Skip: skip, Self: self}
	d, err := k.Cycle()
	if err != nil {
		t.Fatal(err)
	}
	w := twin{all: all, ls: ls, Skip: skip, Self: self}
	if want := w.Cycle(); (d != nil) != want {
		t.Fatalf("seed %d: %s is in the cycle %v, want one: %v", seed, self.HoldID, d, want)
	}
	there := survivors(ls)
	for i, w := range d {
		if !there[ls.Find(w.Waiter.Node)] || !there[ls.Find(w.For.Node)] {
			t.Fatalf("seed %d: %s → %s could go on:%v", seed, w.Waiter.Node, w.For.Node, ls)
		}
		if next := d[(i+1)%len(d)]; next.Waiter.Node != w.For.Node && !slices.Contains(ls.Find(next.Waiter.Node).Under, w.For.Node) {
			t.Fatalf("seed %d: %v is not followed by what its owner waits for", seed, w)
		}
	}
	return d != nil
}

func TestCycleFinderTwin(t *testing.T) {
	first, cycles := rand.Uint64N(1<<48), 0
	const rounds = 5000
	for seed := first; seed < first+rounds; seed++ {
		if finderTwin(t, seed) {
			cycles++
		}
	}
	t.Logf("%d of %d from seed %d wait for themselves", cycles, rounds, first)
	if cycles < rounds/100 {
		t.Error("hardly any of the queues have a cycle")
	}
}

func FuzzCycleFinder(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { finderTwin(t, seed) })
}
