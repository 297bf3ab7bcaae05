package lock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A survey reads the lines that a deadlock may go through, each once. It is one search's, and has that one's context.
//
// It reads different lines at different times, which is no picture of one moment. So a second survey follows, which
// counts only nodes that the first one has read, with the same data. Names of nodes are never used again: all of these
// were there, as they are, at any instant between the two.
type survey struct {
	ctx    context.Context
	s      *client.Session
	before *survey // the first one, if this is the second: only what that has read counts
	lines  map[string]*surveyed
	nodes  int // read
	synced bool
}

// surveyed is a line that has been read.
type surveyed struct {
	lineup *lineup
	room   roomFacts
	mzxid  map[string]int64 // of each claim's node, by name
}

// roomFacts are a semaphore's number of permits and what tells whether it is the same in a second survey. The number
// is 0 if it has ever been changed: who was granted under the old one cannot be told.
type roomFacts struct {
	n     int
	czxid int64 // of the directory
}

// A survey reads at most that many lines and nodes.
const (
	surveyLinesMax = 256
	surveyNodesMax = 4096
)

// ErrTooManyWaits: whoever looks for deadlocks would have to look at too much.
var ErrTooManyWaits = fmt.Errorf("more than %d locks or %d contenders to look at", surveyLinesMax, surveyNodesMax)

func newSurvey(ctx context.Context, s *client.Session, before *survey) *survey {
	return &survey{ctx: ctx, s: s, before: before, lines: map[string]*surveyed{}}
}

// circle returns a circle of waits through the party with that stem in the line at dir; nil if there is none. Parties
// that are before it, as before says, are left out: of each circle one party is to be the first.
func (v *survey) circle(dir, stem string, before func(p, other *party) bool) (Deadlock, error) {
	if v.ctx.Err() != nil { // which need not have been noticed: what has been read may take long to look at
		return nil, ending.Of(v.ctx)
	}
	line, err := v.load(dir)
	if err != nil {
		return nil, err
	}
	self := line.find(stem)
	if self == nil {
		return nil, nil
	}
	k := knot{load: v.load, skip: func(p *party) bool { return before(p, self) }, self: self}
	return k.circle()
}

// circles returns the youngest of each circle that touches one of the lines at paths, in the order of their own paths.
func (v *survey) circles(paths []string) ([]*party, error) {
	if err := v.loadFrom(paths); err != nil {
		return nil, err
	}
	var youngest []*party
	for _, dir := range slices.Sorted(maps.Keys(v.lines)) {
		for _, p := range v.lines[dir].lineup.parties {
			if len(p.under) == 0 { // nobody waits for it but those behind it, who are younger
				continue
			}
			d, err := v.circle(dir, p.stem, (*party).youngerThan)
			if err != nil {
				return nil, err
			}
			if d != nil {
				youngest = append(youngest, p)
			}
		}
	}
	return youngest, nil
}

// loadFrom loads the lines at paths, and those of what is held by whoever waits in a line that it loads.
func (v *survey) loadFrom(paths []string) error {
	dirs := slices.Clone(paths)
	known := map[string]bool{}
	for i := 0; i < len(dirs); i++ { // which grow meanwhile
		line, err := v.load(dirs[i])
		if err != nil {
			return err
		}
		for _, p := range line.parties {
			if !line.waits(p) {
				continue
			}
			for _, stem := range p.under {
				if dir := zk.Parent(stem); !known[dir] {
					known[dir] = true
					dirs = append(dirs, dir)
				}
			}
		}
	}
	return nil
}

// load returns the line at dir.
func (v *survey) load(dir string) (*lineup, error) {
	if l := v.lines[dir]; l != nil {
		return l.lineup, nil
	}
	if len(v.lines) >= surveyLinesMax || v.nodes > surveyNodesMax {
		return nil, ErrTooManyWaits
	}
	l, err := v.read(dir)
	if err != nil {
		return nil, err
	}
	if v.before != nil {
		l.only(v.before.lines[dir])
	}
	v.lines[dir] = l
	return l.lineup, nil
}

// read reads the line at dir, which may not be there. One that may not be read is taken for empty, so that nothing is
// said of it.
func (v *survey) read(dir string) (*surveyed, error) {
	p := v.s.Pipeline()
	if !v.synced {
		p.Sync(dir)
		v.synced = true
	}
	got, listed := p.Get(dir), p.Children(dir)
	p.Send(v.ctx)
	node, err := got.Wait(v.ctx)
	if err == nil {
		var l client.Listing
		if l, err = listed.Wait(v.ctx); err == nil {
			return v.readLine(dir, node, parseQueue(l.Names, ^kind(0)))
		}
	}
	if unseen(err) {
		return &surveyed{lineup: &lineup{}}, nil
	}
	return nil, err
}

// unseen reports whether a read has failed because there is nothing, or nothing that may be read.
func unseen(err error) bool { return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) }

// readLine reads the nodes of a queue, and leaves out those that have gone or may not be read.
func (v *survey) readLine(dir string, directory client.Node, q queue) (*surveyed, error) {
	l := &surveyed{mzxid: map[string]int64{}}
	if n, err := parseRoom(directory.Data); err == nil && directory.Stat.Version == 0 {
		l.room = roomFacts{n, directory.Stat.Czxid}
	}
	if v.nodes += len(q.line); v.nodes > surveyNodesMax {
		return nil, ErrTooManyWaits
	}
	there := queue{room: l.room.n}
	var of []*party
	parties := map[string]*party{}
	for rest := q.line; len(rest) > 0; {
		batch := rest[:min(lookBatch, len(rest))]
		rest = rest[len(batch):]
		p := v.s.Pipeline()
		reads := make([]*client.Pending[client.Node], len(batch))
		for i, c := range batch {
			reads[i] = p.Get(zk.Join(dir, c.name))
		}
		p.Send(v.ctx)
		for i, c := range batch {
			n, err := reads[i].Wait(v.ctx)
			if unseen(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			name := c.name
			stem := stemOf(dir, name)
			if parties[stem] == nil {
				says := parseRecord(n.Data)
				parties[stem] = &party{stem: stem, dir: dir, under: says.under(), czxid: n.Stat.Czxid, yields: says.Yields, passes: says.Passing,
					who: newContender(zk.Join(dir, name), n)}
			}
			there.line = append(there.line, c)
			of = append(of, parties[stem])
			l.mzxid[name] = n.Stat.Mzxid
		}
	}
	l.lineup = newLineup(there, of)
	return l, nil
}

// only leaves out what the earlier survey did not find as it is now. nil stands for a line that it did not read.
func (l *surveyed) only(earlier *surveyed) {
	if earlier == nil {
		l.lineup = &lineup{}
		return
	}
	same := queue{}
	if l.room == earlier.room {
		same.room = l.room.n
	}
	var of []*party
	for i, c := range l.lineup.queue.line {
		name := c.name
		if mzxid, ok := earlier.mzxid[name]; ok && mzxid == l.mzxid[name] {
			same.line = append(same.line, c)
			of = append(of, l.lineup.of[i])
		}
	}
	l.lineup = newLineup(same, of)
}
