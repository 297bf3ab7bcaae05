package locksuite

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// A crew is clients of random tests, which go on with new sessions when theirs are over.
type crew struct {
	mu      sync.Mutex
	present []*Client // guarded by mu
}

func newCrew(w *World, clients int) *crew {
	c := &crew{}
	for i := range clients {
		c.present = append(c.present, w.Client(fmt.Sprint("c", i)))
	}
	return c
}

// client returns a client, with a new session if the last one is over. One goroutine asks for each.
func (c *crew) client(i int) *Client {
	c.mu.Lock()
	client := c.present[i]
	c.mu.Unlock()
	client = client.Alive() // not under the mutex: virtual time stands still while a goroutine waits for one
	c.mu.Lock()
	defer c.mu.Unlock()
	c.present[i] = client
	return client
}

// any returns one of the clients.
func (c *crew) any(r *rand.Rand) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.present[r.IntN(len(c.present))]
}

// heal ends what disturb has done.
func (c *crew) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.present {
		client.Reachable()
		client.Heal()
	}
}

// disturb breaks a client's connection for a moment, or until it is healed, or heals it; n, below 5, says what.
func (c *Client) disturb(n int) {
	switch n {
	case 0:
		c.Proxy.CutAll()
	case 1:
		c.Unreachable()
	case 2:
		c.Blackhole()
	default:
		c.Reachable()
		c.Heal()
	}
}

// A witness sees which holders are inside. A holder that is put out by force stays until the news reaches it, or even
// comes in because the news of its grant was late too. Only a fencing token helps against that. So holders that were put
// out do not count.
type witness struct {
	mu      sync.Mutex
	in      map[int64]int64 // session by token, of those inside
	out     map[int64]bool  // tokens and sessions of those that were put out
	highest int64
	faults  []string
}

func newWitness() *witness { return &witness{in: map[int64]int64{}, out: map[int64]bool{}} }

func (w *witness) enter(token, session int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out[token] || w.out[session] {
		return
	}
	for other, of := range w.in {
		if !w.out[other] && !w.out[of] {
			w.faults = append(w.faults, fmt.Sprintf("%#x entered while %#x was inside", token, other))
		}
	}
	if token <= w.highest {
		w.faults = append(w.faults, fmt.Sprintf("%#x entered after %#x", token, w.highest))
	}
	w.highest = max(w.highest, token)
	w.in[token] = session
}

func (w *witness) leave(token int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.in, token)
}

// putOut notes that a token's node or a session is about to be removed by force. The numbers of the two
// are far apart.
func (w *witness) putOut(who int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out[who] = true
}

func (w *witness) check(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		t.Errorf("I1: %s", fault)
	}
}
