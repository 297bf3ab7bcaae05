package crash

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// sessionLimit bounds how long a server that listens may take to open a session.
const sessionLimit = 20 * time.Second

// A session is a client of the server. Unless it returns, it ends with its connection: a client that
// comes back by itself would write at unknown times.
type session struct {
	conn *zk.Conn
	id   int64
}

func openSession(t *testing.T, addr string, timeout time.Duration, returns bool) *session {
	t.Helper()
	var dials atomic.Int32
	dial := func(network, address string, limit time.Duration) (net.Conn, error) {
		if dials.Add(1) > 1 && !returns {
			return nil, errors.New("once only")
		}
		return net.DialTimeout(network, address, limit)
	}
	c, events, err := zk.Connect([]string{addr}, timeout, zk.WithLogger(silent{}), zk.WithDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	late := time.After(sessionLimit)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return &session{c, c.SessionID()}
			}
		case <-late:
			t.Fatalf("no session after %v", sessionLimit)
		}
	}
}

// read returns the znodes below dir. One that is deleted meanwhile is not among them.
func (s *session) read(dir string) (map[string]node, error) {
	names, _, err := s.conn.Children(dir)
	if err != nil {
		return nil, fmt.Errorf("children of %s: %w", dir, err)
	}
	found := map[string]node{}
	for _, name := range names {
		path := dir + "/" + name
		switch data, stat, err := s.conn.Get(path); {
		case err == nil:
			found[path] = node{string(data), stat.Version, stat.EphemeralOwner}
		case !errors.Is(err, zk.ErrNoNode):
			return nil, fmt.Errorf("get %s: %w", path, err)
		}
	}
	return found, nil
}

// silent is a logger for go-zookeeper.
type silent struct{}

func (silent) Printf(string, ...any) {}
