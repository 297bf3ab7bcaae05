package client

import (
	"math/rand/v2"
	"time"
)

// A backoff says how long to pause before the next round through the servers. It grows with every
// round in vain, and only a connection that proved good resets it: a server that accepts and hangs
// up at once is no better than one that refuses.
type backoff struct {
	min, max time.Duration
	rounds   int // in vain
}

// goodAfter is how long a connection must have lasted to count as good.
const goodAfter = time.Second

// pause returns the time to wait before the next round: none before the first, then min, doubling up
// to max, each shortened by a random part of up to a half so that clients do not march in step.
func (b *backoff) pause() time.Duration {
	n := b.rounds
	b.rounds++
	if n == 0 {
		return 0
	}
	d := b.max
	if b.min <= b.max>>(n-1) { // or it could overflow
		d = b.min << (n - 1)
	}
	return d - rand.N(d/2+1)
}

func (b *backoff) reset() { b.rounds = 0 }
