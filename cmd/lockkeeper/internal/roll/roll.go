// Package roll restarts the members of an ensemble one after the other, without an outage: observers and followers
// first, the leader last.
//
// Guarantees:
//
//  1. A member is restarted only while all members are well: each answers, takes part, and has committed a
//     transaction for a client of its own; one leads; all have the same configuration.
//  2. The next member is restarted only after the last one was seen to go away, all members are well again, and the
//     restarted one has what the leader had before.
//  3. At the first doubt it ends, and the error says what was restarted, what was not, and which member may have
//     been.
package roll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What a member says of its role.
const (
	leader   = "leader"
	follower = "follower"
	observer = "observer"
	readOnly = "read-only" // of one without a majority, if it may serve reads
)

// A State is what a member says when it is looked at.
type State struct {
	Mode     string // leader, follower, observer, or something else
	Zxid     int64
	Received int64         // packets since it was started
	Uptime   time.Duration // since it was started; 0 if it does not say
	Synced   int           // followers that the leader says are in sync; -1 if it does not say
	Members  string        // the configuration of the ensemble that it has
}

// A World is the ensemble and the machines that it runs on.
type World interface {
	// Glance asks a member how it is, and nothing else. The error says that it does not answer; one that answers and does
	// not serve has no Mode.
	Glance(ctx context.Context, member string) (State, error)
	// Look also has the member commit a transaction, and reads its configuration.
	Look(ctx context.Context, member string) (State, error)
	// Restart runs the command that restarts a member.
	Restart(ctx context.Context, member string) error
}

// Options say how to roll.
type Options struct {
	Members []string      // all of the ensemble
	Skip    []string      // those that are not restarted
	Timeout time.Duration // for one member: its command, and until all are well again
	Pause   time.Duration // between two members, for clients to come back
	Say     func(string)  // hears of each step; nil is silence
}

// How often the members are looked at.
const (
	glanceInterval = 50 * time.Millisecond
	lookInterval   = 250 * time.Millisecond
	// firstLooks bounds how long the members may take to be well before anything is restarted: a follower may lag
	// behind by a moment.
	firstLooks = 10 * time.Second
	// votersLeast is how many voting members go on with one of them away.
	votersLeast = 3
)

// A Step is one restart.
type Step struct {
	Member, Mode string
}

// Plan looks at the members and returns the steps. The error says why they would not be begun.
func Plan(ctx context.Context, w World, o Options) ([]Step, error) {
	r := &roller{World: w, Options: o}
	seen, err := r.await(ctx, min(firstLooks, r.Timeout), nil)
	return r.steps(seen), err
}

// steps puts the members that are to be restarted in order.
func (r *roller) steps(seen ensemble) (all []Step) {
	for _, mode := range []string{observer, follower, leader} {
		for _, m := range r.Members {
			if seen.states[m].Mode == mode && !slices.Contains(r.Skip, m) {
				all = append(all, Step{m, mode})
			}
		}
	}
	return all
}

// An Error says how far a roll has come. Restarted includes the member that the doubt is about, if its command succeeded and
// it was seen to go away.
type Error struct {
	Restarted, Left []string
	Unknown         string // a member whose command was run, and may not have restarted it; empty if there is none
	Err             error
}

func (e *Error) Error() string {
	unknown := ""
	switch {
	case e.Unknown != "":
		unknown = "; unknown: " + e.Unknown
	case len(e.Restarted) == 0:
		return e.Err.Error() + "; nothing was restarted"
	}
	return fmt.Sprintf("%v; restarted: %s%s; not restarted: %s", e.Err, orNone(e.Restarted), unknown, orNone(e.Left))
}

// Unwrap returns the doubt.
func (e *Error) Unwrap() error { return e.Err }

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Run restarts the members. The error is an *Error.
func Run(ctx context.Context, w World, o Options) error {
	r := &roller{World: w, Options: o}
	if r.Say == nil {
		r.Say = func(string) {}
	}
	if err := r.run(ctx); err != nil {
		return &Error{Restarted: r.restarted, Left: r.left, Unknown: r.unknown, Err: err}
	}
	return nil
}

type roller struct {
	World
	Options
	restarted, left []string
	unknown         string // the member that may have been restarted
}

func (r *roller) run(ctx context.Context) error {
	seen, err := r.await(ctx, min(firstLooks, r.Timeout), nil)
	steps := r.steps(seen)
	for _, s := range steps {
		r.left = append(r.left, s.Member)
	}
	if err != nil {
		return err
	}
	for i, s := range steps {
		if i > 0 && r.Pause > 0 {
			if err := sleep(ctx, r.Pause); err != nil {
				return err
			}
			if seen, err = r.await(ctx, min(firstLooks, r.Timeout), nil); err != nil {
				return err
			}
		}
		if seen.states[s.Member].Mode != s.Mode {
			return fmt.Errorf("%s is now %s, and was %s: there was an election without a restart of the leader", s.Member, seen.states[s.Member].Mode, s.Mode)
		}
		if seen, err = r.step(ctx, s, seen); err != nil {
			return err
		}
	}
	r.Say(fmt.Sprintf("all is well; %s leads", seen.leader))
	return nil
}

// step restarts a member and waits until all are well again.
func (r *roller) step(ctx context.Context, s Step, before ensemble) (ensemble, error) {
	begin := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("not otherwise within %v", r.Timeout))
	defer cancel()
	r.Say(fmt.Sprintf("%s (%s): restarting", s.Member, s.Mode))
	r.unknown, r.left = s.Member, r.left[1:]
	gone := r.watchGo(limited, s.Member, before.states[s.Member], begin)
	err := r.Restart(limited, s.Member)
	if err != nil {
		gone.stop()
		return before, fmt.Errorf("%s: the restart command failed: %w", s.Member, err)
	}
	restarted := func(own State) bool {
		stayed := own.Uptime > time.Since(begin) // though a look at it may have failed, for another reason
		return !stayed && (gone.seen() || begunSince(own, before.states[s.Member], begin))
	}
	seen, err := r.await(limited, r.Timeout, func(now ensemble) string {
		own := now.states[s.Member]
		switch {
		case !restarted(own):
			return s.Member + ": its command has ended, and it was not seen to restart"
		case own.Zxid < before.states[before.leader].Zxid:
			return fmt.Sprintf("%s: its zxid is 0x%x, and the leader was at 0x%x before", s.Member, own.Zxid, before.states[before.leader].Zxid)
		}
		return ""
	})
	gone.stop()
	if err == nil || gone.seen() && restarted(seen.states[s.Member]) {
		r.restarted, r.unknown = append(r.restarted, s.Member), ""
	}
	if err != nil {
		return seen, err
	}
	r.Say(fmt.Sprintf("%s: back after %v as %s, zxid 0x%x, in sync", s.Member, time.Since(begin).Round(100*time.Millisecond), seen.states[s.Member].Mode, seen.states[s.Member].Zxid))
	return seen, nil
}

// begunSince reports whether a member was started after begin.
func begunSince(now, before State, begin time.Time) bool {
	return now.Received < before.Received || now.Uptime > 0 && now.Uptime < time.Since(begin)
}

// A departure is watched for from before the restart command, because a quick restart is over when the command ends.
type departure struct {
	happened chan struct{} // closed when the member did not answer, or was a new one
	ended    chan struct{}
	cancel   context.CancelFunc
}

func (r *roller) watchGo(ctx context.Context, member string, before State, begin time.Time) *departure {
	ctx, cancel := context.WithCancel(ctx)
	d := &departure{make(chan struct{}), make(chan struct{}), cancel}
	go func() {
		defer close(d.ended)
		for ctx.Err() == nil {
			now, err := r.Glance(ctx, member)
			if ctx.Err() == nil && (err != nil || begunSince(now, before, begin)) {
				close(d.happened)
				return
			}
			sleep(ctx, glanceInterval)
		}
	}()
	return d
}

func (d *departure) seen() bool {
	select {
	case <-d.happened:
		return true
	default:
		return false
	}
}

func (d *departure) stop() {
	d.cancel()
	<-d.ended
}

// await looks at all members until there is no doubt, neither of theirs nor of also, which may be nil. The error is the
// last doubt, after the time or at once if it does not go away by itself.
func (r *roller) await(ctx context.Context, limit time.Duration, also func(ensemble) string) (ensemble, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not otherwise within %v", limit))
	defer cancel()
	var last doubt
	for {
		seen := r.survey(ctx)
		now := seen.examine(r.Members)
		if now.text == "" && also != nil {
			now.text = also(seen)
		}
		switch {
		case now.text == "" && ctx.Err() == nil:
			return seen, nil
		case now.text == "" && last.text == "":
			return seen, context.Cause(ctx)
		case now.lasting:
			return seen, errors.New(now.text)
		}
		if last.text == "" || ctx.Err() == nil { // otherwise the look was cut short
			last = now
		}
		if sleep(ctx, lookInterval) != nil {
			return seen, fmt.Errorf("%s (%w)", last.text, context.Cause(ctx))
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
