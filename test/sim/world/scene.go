package world

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

// scenes are work and faults that belong together: each makes for a moment that chance alone rarely comes to.
// The steps are ordinary ones, and what is done beside them is drawn like all else.
var scenes = []func(*dice){lateAnswer, cutOffHolder, goneInLine, anotherSession, staleListing, powerCut, gapOfHolder, grownTimeout}

// stage adds a step of a scene.
func (d *dice) stage(at time.Duration, s Step) {
	s.ID, s.At = len(d.plan.Steps)+1, at
	d.plan.Steps = append(d.plan.Steps, s)
}

// between returns a duration between two.
func (d *dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64(most-least)))
}

// rivals lets one process take a lock from some moment on, and another wait for it for as long as the turmoil
// lasts. It returns the first.
func (d *dice) rivals(kind string, key int, at, hold time.Duration) (holder int) {
	holder = d.IntN(d.plan.Processes)
	waiter := (holder + 1 + d.IntN(d.plan.Processes-1)) % d.plan.Processes
	d.stage(at, Step{Do: kind, Who: holder, Key: key, N: 2, Wait: 2 * time.Second, For: hold, Release: time.Second})
	d.stage(at+d.between(100*time.Millisecond, 500*time.Millisecond),
		Step{Do: kind, Who: waiter, Key: key, N: 2, Wait: turmoil - at, For: time.Second, Release: time.Second})
	return holder
}

// lateAnswer delays the answer to a holder's heartbeat by nearly as long as its connection may be silent.
func lateAnswer(d *dice) {
	at := d.upTo(4 * time.Second)
	kind := []string{"mutex", "write", "unfair"}[d.IntN(3)] // leaders end their work earlier
	holder := d.rivals(kind, d.IntN(d.plan.Keys), at, turmoil)
	late := d.plan.Timeout/2 - d.between(80*time.Millisecond, 160*time.Millisecond)
	d.stage(at+d.between(time.Second, 2*time.Second), Step{Do: "late", Who: holder, For: late})
}

// cutOffHolder cuts off the follower of a holder, or the leader, for longer than its session lives.
func cutOffHolder(d *dice) {
	d.plan.Followers = 2
	d.plan.Vouch = []client.Vouch{client.VouchSync, client.VouchWrite}[d.IntN(2)]
	at := d.upTo(4 * time.Second)
	kind := []string{"mutex", "write", "unfair", "lead"}[d.IntN(4)]
	holder := d.rivals(kind, d.IntN(d.plan.Keys), at, turmoil)
	d.stage(at+d.between(time.Second, 2*time.Second),
		Step{Do: "cutoff", Who: holder, Aim: true, For: d.between(d.plan.Timeout+d.plan.Tick, 2*d.plan.Timeout+d.plan.Tick)})
}

// goneInLine deletes the node of a waiter: about when it is its turn, or some time before, or long before.
func goneInLine(d *dice) {
	work := []string{"mutex", "write", "permits", "lead", "all"}[d.IntN(5)]
	kind := slices.Index([]string{"mutex", "write", "permits", "lead"}, work)
	key, place := d.IntN(d.plan.Keys), 1
	switch work {
	case "permits":
		place = permits // of the holder, which has all of them, are in front
	case "all":
		kind, key = 0, 1 // the first of those that rivals take
	}
	at := d.upTo(2 * time.Second)
	gone := at + d.between(time.Second, 3*time.Second)
	hold := []time.Duration{d.between(-50*time.Millisecond, 100*time.Millisecond), d.between(time.Second, 6*time.Second), turmoil}[d.IntN(3)]
	d.rivals(work, key, at, gone-at+hold)
	d.stage(gone, Step{Do: "break", N: kind + key*len(brittle), Key: place})
}

// anotherSession ends a session while followers answer a client that asks for it with another one.
func anotherSession(d *dice) {
	d.plan.Followers = 2
	at := d.upTo(4 * time.Second)
	who := d.IntN(d.plan.Processes)
	d.stage(at, Step{Do: "present", Who: who, For: d.between(3*time.Second, turmoil/2)})
	gone := at + d.between(time.Second, 2*time.Second)
	for follower := range d.plan.Followers {
		d.stage(gone, Step{Do: "forget", Key: follower, For: 2 * time.Second})
	}
	d.stage(gone+d.upTo(time.Second), Step{Do: "expire", Who: who})
}

// staleListing loses the answer to the request that puts a process in line, and has those servers lag where it may look
// for what became of it. It has seen nothing new for a while, so they let it in.
func staleListing(d *dice) {
	d.plan.Followers = 2
	at := d.upTo(4 * time.Second)
	who, key := d.IntN(d.plan.Processes), d.IntN(d.plan.Keys)
	kind := []string{"mutex", "write", "read", "lead"}[d.IntN(4)]
	d.stage(at, Step{Do: kind, Who: who, Key: key, N: 2, Wait: time.Second, For: time.Millisecond, Release: time.Second})
	again := at + d.between(2500*time.Millisecond, 4*time.Second)
	for follower := range d.plan.Followers {
		d.stage(again-d.upTo(200*time.Millisecond), Step{Do: "lag", Key: follower, For: d.between(time.Second, 10*time.Second)})
	}
	d.stage(again-d.upTo(200*time.Millisecond), Step{Do: "snip", Who: who, N: 1})
	d.stage(again, Step{Do: kind, Who: who, Key: key, N: 2, Wait: 6 * time.Second, For: d.upTo(time.Second), Release: time.Second})
}

// powerCut takes the server's power away just when it has answered one of a process's requests for locks: the network
// is faster than the disk.
func powerCut(d *dice) {
	d.plan.Latency, d.plan.Sync = d.upTo(500*time.Microsecond), d.between(2*time.Millisecond, 10*time.Millisecond)
	who, key := d.IntN(d.plan.Processes), d.IntN(d.plan.Keys)
	kind := []string{"mutex", "write", "unfair", "lead"}[d.IntN(4)]
	at := d.upTo(4 * time.Second)
	for turn := range 4 { // with the first, the session begins
		if turn == 1 {
			d.stage(at-d.between(0, 300*time.Millisecond), Step{Do: "snip", Who: who, N: 3, Key: d.IntN(3), For: d.upTo(time.Second)})
		}
		d.stage(at, Step{Do: kind, Who: who, Key: key, N: 2, Wait: 2 * time.Second, For: d.upTo(500 * time.Millisecond), Release: time.Second})
		at += d.between(1500*time.Millisecond, 2500*time.Millisecond)
	}
}

// gapOfHolder stops a holder for about half its session timeout, and cuts it and its follower off when it has just been heard
// again, while a rival waits.
func gapOfHolder(d *dice) {
	d.plan.Followers = 2
	d.plan.Vouch = []client.Vouch{client.VouchSync, client.VouchWrite}[d.IntN(2)]
	at := d.upTo(2 * time.Second)
	kind := []string{"mutex", "write", "unfair"}[d.IntN(3)] // leaders end their work earlier
	holder := d.rivals(kind, d.IntN(d.plan.Keys), at, turmoil)
	gap := Step{Do: "gap", Who: holder}
	planGap(d, &gap)
	gap.Aim = false
	d.stage(at+d.between(time.Second, 4*time.Second), gap)
}

// grownTimeout opens all sessions at a server that grants less than it is asked for, restarts it with a larger maximum, and
// again when a holder cannot reach it any more: it counts with the first timeout then.
func grownTimeout(d *dice) {
	d.plan.Followers = 0
	d.stage(time.Millisecond, Step{Do: "bounds", N: 0, For: time.Millisecond})
	for who := range d.plan.Processes {
		d.stage(500*time.Millisecond, Step{Do: "mutex", Who: who, Key: 0, N: 2, Wait: 3 * time.Second, For: time.Millisecond, Release: time.Second})
	}
	d.stage(2500*time.Millisecond, Step{Do: "bounds", N: 2, For: d.upTo(200 * time.Millisecond)})
	at := 3500 * time.Millisecond
	kind := []string{"mutex", "write", "unfair"}[d.IntN(3)]
	holder := d.rivals(kind, d.IntN(d.plan.Keys), at, turmoil)
	gone := at + d.between(time.Second, 2*time.Second)
	d.stage(gone, Step{Do: "refuse", Who: holder, For: turmoil})
	d.stage(gone+d.upTo(200*time.Millisecond), Step{Do: "crash", For: d.upTo(20 * time.Millisecond)})
}
