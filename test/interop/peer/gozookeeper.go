package peer

import (
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// goZookeeper is go-zookeeper's lock.
type goZookeeper struct {
	conn *zk.Conn
	held *zk.Lock
}

type silentLogger struct{}

func (silentLogger) Printf(string, ...any) {}

func newGoZookeeper(servers string, timeout time.Duration) (locker, error) {
	conn, events, err := zk.Connect(strings.Split(servers, ","), timeout, zk.WithLogger(silentLogger{}))
	if err != nil {
		return nil, err
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return &goZookeeper{conn: conn}, nil
}

func (g *goZookeeper) lock(path string, as As, limit time.Duration) ([]int64, error) {
	if as != Mutex || limit >= 0 {
		return nil, errors.New("go-zookeeper has one lock, which waits for ever")
	}
	l := zk.NewLock(g.conn, path, zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return nil, err
	}
	g.held = l
	token, err := g.token(path)
	return []int64{token}, err
}

// token finds the znode that the lock does not tell the name of.
func (g *goZookeeper) token(path string) (int64, error) {
	names, _, err := g.conn.Children(path)
	if err != nil {
		return 0, err
	}
	for _, n := range names {
		_, stat, err := g.conn.Exists(path + "/" + n)
		if err != nil {
			return 0, err
		}
		if stat.EphemeralOwner == g.conn.SessionID() {
			return stat.Czxid, nil
		}
	}
	return 0, errors.New("go-zookeeper holds the lock without a znode")
}

func (g *goZookeeper) unlock() error { return g.held.Unlock() }

func (g *goZookeeper) close() { g.conn.Close() }
