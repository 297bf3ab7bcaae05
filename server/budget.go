package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// budget bounds the memory for answers and events that clients have not taken yet, of all connections together. Large
// answers reserve their bytes before they are built. While the budget is used up, connections to which much waits are
// not read from, and the one that holds the most without taking it is closed.
type budget struct {
	max  int64
	used atomic.Int64 // what outputs hold, and reservations

	mu      sync.Mutex
	room    sync.Cond     // used has shrunk, or a waiting goroutine has to look again
	nextCut time.Duration // when a connection may be closed next, on the server's clock; guarded by mu
}

func newBudget(max int64) *budget {
	b := &budget{max: max}
	b.room.L = &b.mu
	return b
}

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

// over reports whether the budget is used up.
func (b *budget) over() bool { return b.used.Load() > b.max }

// farOver reports whether so much is in use that even answers which cannot wait must not be kept.
func (b *budget) farOver() bool { return b.used.Load() > b.max+b.max/4 }

// add counts bytes; negative ones are free again. Zero only has those look again that wait.
func (b *budget) add(bytes int64) {
	b.used.Add(bytes)
	if bytes <= 0 {
		b.mu.Lock()
		b.room.Broadcast()
		b.mu.Unlock()
	}
}

// fits reports whether so many bytes may be added. An answer that is larger than half of the budget has to go through
// at some time: it may be added while half is free.
func (b *budget) fits(bytes int64) bool {
	used := b.used.Load()
	return used+bytes <= b.max || bytes > b.max/2 && used <= b.max/2
}

// reserve waits until so many bytes fit, and counts them. Meanwhile it calls look from time to time. It reports false
// if gone says that there is nothing to wait for any more.
func (b *budget) reserve(bytes int64, look func(), gone func() bool) bool {
	for !b.tryReserve(bytes) {
		if gone() { // without the mutex, which an output takes under its own
			return false
		}
		alarm := time.AfterFunc(greedyEvery, func() {
			look()
			b.add(0)
		})
		b.await(bytes)
		alarm.Stop()
	}
	return true
}

func (b *budget) tryReserve(bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(bytes) {
		return false
	}
	b.used.Add(bytes)
	return true
}

// await waits until something has changed, if so many bytes do not fit.
func (b *budget) await(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(bytes) {
		b.room.Wait()
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
		if held, since := c.out.stalled(now); held > most && since > greedyAfter {
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
