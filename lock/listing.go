package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
)

// A listing is the request that lists the line.
type listing struct {
	*client.Pending[client.Listing]
	heeds kind // the kinds of claims in the line
}

// listed is what a listing shows.
type listed struct {
	own   queue // the line
	other claim // the oldest claim of another kind of lock; its name is empty if there is none
}

// list adds the request that lists the line.
func (e *entrance) list(p *client.Pipeline) *listing {
	return &listing{p.Children(e.dir), e.recipe.heeds}
}

// result waits for the answer. With an error, nothing is listed.
func (l *listing) result(ctx context.Context) (listed, error) {
	children, err := l.Wait(ctx)
	if err != nil {
		return listed{}, err
	}
	seen := parseListing(children.Names, l.heeds)
	seen.own.spent = counterSpent(children.Stat)
	return seen, nil
}

// parseListing sorts the children of a directory into the line of claims of the kinds in heeds, and others.
func parseListing(names []string, heeds kind) listed {
	seen := listed{own: queue{line: make([]claim, 0, len(names))}}
	for _, name := range names {
		number, k, ok := parseName(name)
		switch {
		case !ok:
		case k&heeds != 0:
			seen.own.add(name, number, k)
		case seen.other.name == "" || before(number, seen.other.number):
			seen.other = claim{number, k, name}
		}
	}
	seen.own.sort()
	return seen
}

// otherAhead returns the kind of a claim of another kind that is ahead of the one at place; KindNone if there is none.
func (l *listed) otherAhead(place int) Kind {
	if l.other.name == "" || !before(l.other.number, l.own.line[place].number) {
		return KindNone
	}
	return kindOf([]string{l.other.name}, 0)
}
