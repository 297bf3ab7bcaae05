package apache

import (
	"net"
	"sync"
	"time"
)

// A Link is the way on which one server of an ensemble reaches another to follow it. Cut, it
// delivers nothing any more, in either direction, and neither side is told. Elections have ways of their
// own and go on.
type Link struct {
	ln     net.Listener
	target string
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		healed chan struct{} // closed while the link delivers
		conns  []net.Conn
		ended  bool
	}
}

// newLink opens a link to the quorum port at target.
func newLink(target string) (*Link, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{ln: ln, target: target}
	l.mu.healed = make(chan struct{})
	close(l.mu.healed)
	l.wg.Go(l.accept)
	return l, nil
}

func (l *Link) port() int { return l.ln.Addr().(*net.TCPAddr).Port }

// Cut stops deliveries. What is sent meanwhile is delivered after Heal, as TCP would.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.healed = make(chan struct{})
}

// Heal ends a Cut.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.mu.healed:
	default:
		close(l.mu.healed)
	}
}

// close ends the link and waits for all that it does.
func (l *Link) close() {
	l.ln.Close()
	l.mu.Lock()
	l.mu.ended = true
	for _, c := range l.mu.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.Heal()
	l.wg.Wait()
}

func (l *Link) accept() {
	for {
		near, err := l.ln.Accept()
		if err != nil {
			return
		}
		if l.own(near) {
			l.wg.Go(func() { l.join(near) })
		}
	}
}

// own makes close close c, too; if that was called already it does so itself and returns false.
func (l *Link) own(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ended {
		c.Close()
		return false
	}
	l.mu.conns = append(l.mu.conns, c)
	return true
}

// linkDialTimeout bounds how long a link waits for its target to listen. A server that has just been
// elected does so a moment later than those that follow it come; being refused by a socket that had
// accepted them, they would call another election.
const linkDialTimeout = 2 * time.Second

// join carries a connection to its end.
func (l *Link) join(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", l.target)
	for deadline := time.Now().Add(linkDialTimeout); err != nil && time.Now().Before(deadline); {
		time.Sleep(pollInterval)
		far, err = net.Dial("tcp", l.target)
	}
	if err != nil || !l.own(far) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.carry(near, far) })
	wg.Go(func() { l.carry(far, near) })
	wg.Wait()
}

// linkChunkBytes is how much a link carries at a time.
const linkChunkBytes = 32 << 10

// carry delivers what from sends to to, while the link is healed, and then its end.
func (l *Link) carry(from, to net.Conn) {
	defer to.Close()
	buf := make([]byte, linkChunkBytes)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		healed := l.mu.healed
		l.mu.Unlock()
		<-healed
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}
