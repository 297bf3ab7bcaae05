package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// budget bounds the memory for answers and events that clients have not taken yet, of all connections together. Large
// answers reserve their bytes before they are built. While the budget is used up, connections to which much waits are
// not read from, and the one that holds the most without taking it is closed.
type budget struct {
	max     int64
	used    atomic.Int64 // what outputs hold, and reservations
	waiters atomic.Int32 // how many reservations wait

	mu      sync.Mutex
	waiting []*reservation // in the order of their arrival
	nextCut time.Duration  // when a connection may be closed next, on the server's clock
}

// reservation is what one goroutine waits for.
type reservation struct {
	bytes   int64
	granted chan struct{} // closed when the bytes are counted
}

func newBudget(max int64) *budget { return &budget{max: max} }

const (
	// uncountedBytes is up to how much an output may hold without being counted, so that small answers cost nothing.
	uncountedBytes = 16 << 10
	// largeAnswerBytes is from what size on an answer has to be reserved. An output that holds no more is never
	// limited by what others hold.
	largeAnswerBytes = 64 << 10
	// greedyAfter is how long a connection may leave its answers lying while others wait for the memory.
	greedyAfter = time.Second
	// greedyEvery is how often a goroutine that waits for memory looks for such a connection.
	greedyEvery = 200 * time.Millisecond
)

// isUsedUp reports whether the budget is used up.
func (b *budget) isUsedUp() bool { return b.used.Load() > b.max }

// farOver reports whether so much is in use that even answers which cannot wait must not be kept.
func (b *budget) farOver() bool { return b.used.Load() > b.max+b.max/4 }

// add counts bytes; negative ones are free again, and go to those that wait for them.
func (b *budget) add(bytes int64) {
	b.used.Add(bytes)
	if bytes < 0 && b.waiters.Load() > 0 {
		b.mu.Lock()
		b.grantLocked()
		b.mu.Unlock()
	}
}

// grantLocked grants what fits of what waits, the oldest first. Small reservations do not wait for a large one before them.
func (b *budget) grantLocked() {
	b.waiting = slices.DeleteFunc(b.waiting, func(r *reservation) bool {
		if !b.fits(r.bytes) {
			return false
		}
		b.used.Add(r.bytes)
		b.waiters.Add(-1)
		close(r.granted)
		return true
	})
}

// fits reports whether so many bytes may be added. An answer that is larger than half of the budget has to go through
// at some time: it may be added while half is free.
func (b *budget) fits(bytes int64) bool {
	used := b.used.Load()
	return used+bytes <= b.max || bytes > b.max/2 && used <= b.max/2
}

// reserve waits until so many bytes fit, and counts them. Meanwhile it calls look from time to time. It reports false, and
// counts nothing, if gone says after a wait that there is nothing to wait for any more.
func (b *budget) reserve(bytes int64, look func(), gone func() bool) bool {
	r := b.ask(bytes)
	if r == nil {
		return true
	}
	again := time.NewTicker(greedyEvery)
	defer again.Stop()
	for granted := false; ; {
		if gone() { // without the mutex, which an output takes under its own
			b.withdraw(r)
			return false
		}
		if granted {
			return true
		}
		select {
		case <-r.granted:
			granted = true
		case <-again.C:
			look()
		}
	}
}

// ask reserves the bytes if they fit, and returns nil then. Otherwise it returns what is to be waited for.
func (b *budget) ask(bytes int64) *reservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &reservation{bytes: bytes, granted: make(chan struct{})}
	b.waiters.Add(1) // before the look whether they fit: what is freed from now on grants
	b.waiting = append(b.waiting, r)
	b.grantLocked()
	select {
	case <-r.granted:
		return nil
	default:
		return r
	}
}

// withdraw gives a reservation up, and its bytes back if it has been granted.
func (b *budget) withdraw(r *reservation) {
	b.mu.Lock()
	i := slices.Index(b.waiting, r)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		b.waiters.Add(-1)
	}
	b.mu.Unlock()
	if i < 0 {
		b.add(-r.bytes)
	}
}

// cutGreediest closes the connection that holds the most answers of those whose clients take nothing; one at a time,
// however many wait: clients that are closed too fast cost more than they held.
func (s *Server) cutGreediest() {
	if !s.answers.mayCut(s.now()) {
		return
	}
	now := time.Now()
	var greediest *conn
	most := int64(largeAnswerBytes)
	s.conns.Lock()
	for _, c := range s.conns.byID {
		if held, since := c.out.stall(now); held > most && since > greedyAfter {
			greediest, most = c, held
		}
	}
	s.conns.Unlock()
	if greediest == nil {
		return
	}
	s.logGreedy(greediest, most)
	greediest.out.hangUp()
}

// mayCut reports whether a connection may be closed now, at most every greedyEvery.
func (b *budget) mayCut(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now < b.nextCut {
		return false
	}
	b.nextCut = now + greedyEvery
	return true
}

// cutSlowest closes the connection that has been sending a large request for the longest time.
func (s *Server) cutSlowest() {
	now := s.now()
	if !s.frames.mayCut(now) {
		return
	}
	var slowest *conn
	longest := greedyAfter
	s.conns.Lock()
	for _, c := range s.conns.byID {
		if began := time.Duration(c.reading.Load()); began > 0 && now-began > longest {
			slowest, longest = c, now-began
		}
	}
	s.conns.Unlock()
	if slowest == nil {
		return
	}
	if unsaid, ok := s.greedyLog.due(now); ok {
		s.log.Warn("connection closed: its request does not arrive, and the memory for requests is used up",
			"remote", slowest.nc.RemoteAddr().String(), "since", longest, "budget", s.frames.max, "unsaid", unsaid)
	}
	slowest.out.hangUp()
}

// logGreedy says that a connection is closed because it holds too much.
func (s *Server) logGreedy(c *conn, held int64) {
	if unsaid, ok := s.greedyLog.due(s.now()); ok {
		s.log.Warn("connection closed: it does not take its answers, and the memory for answers is used up",
			"remote", c.nc.RemoteAddr().String(), "bytes", held, "budget", s.answers.max, "unsaid", unsaid)
	}
}
