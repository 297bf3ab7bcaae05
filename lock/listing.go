package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A listing is the request that lists the line.
type listing struct {
	*client.Pending[client.Listing]
	heeds queue.ClaimKind // the kinds of claims in the line
}

// listed is what a listing shows.
type listed struct {
	own   queue.Queue // the line
	other queue.Claim // the oldest claim of another kind of lock; its name is empty if there is none
}

// list adds the request that lists the line.
func (e *entrance) list(p *client.Pipeline) *listing {
	return &listing{p.Children(e.dir), e.recipe.Heeds}
}

// result waits for the answer. With an error, nothing is listed.
func (l *listing) result(ctx context.Context) (listed, error) {
	children, err := l.Wait(ctx)
	if err != nil {
		return listed{}, err
	}
	seen := parseListing(children.Names, l.heeds)
	seen.own.Spent = queue.CounterSpent(children.Stat)
	return seen, nil
}

// parseListing sorts the children of a directory into the line of claims of the kinds in heeds, and others.
func parseListing(names []string, heeds queue.ClaimKind) listed {
	seen := listed{own: queue.Queue{Line: make([]queue.Claim, 0, len(names))}}
	for _, name := range names {
		number, k, ok := queue.ParseName(name)
		switch {
		case !ok:
		case k&heeds != 0:
			seen.own.Add(name, number, k)
		case seen.other.Name == "" || queue.Before(number, seen.other.Number):
			seen.other = queue.Claim{Number: number, Kind: k, Name: name}
		}
	}
	seen.own.Sort()
	return seen
}

// otherAhead returns the kind of a claim of another kind that is ahead of the one at place; KindNone if there is none.
func (l *listed) otherAhead(place int) Kind {
	if l.other.Name == "" || !queue.Before(l.other.Number, l.own.Line[place].Number) {
		return queue.KindNone
	}
	return queue.KindOf([]string{l.other.Name}, 0)
}
