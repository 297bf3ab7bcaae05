package peers

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// goZookeeper is a connection of go-zookeeper.
type goZookeeper struct{ c *zk.Conn }

func openGoZookeeper(ctx context.Context, addr string) (contender, error) {
	c, events, err := zk.Connect([]string{addr}, sessionTimeout, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				return nil, fmt.Errorf("go-zookeeper: no session with %s", addr)
			case e.State == zk.StateHasSession:
				return goZookeeper{c}, nil
			}
		case <-ctx.Done():
			c.Close()
			return nil, ctx.Err()
		}
	}
}

func (g goZookeeper) cycle(_ context.Context, name string) error {
	l := zk.NewLock(g.c, "/bench-go-zookeeper/"+name, zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return err
	}
	return l.Unlock()
}

func (g goZookeeper) close() { g.c.Close() }

type silent struct{}

func (silent) Printf(string, ...any) {}
