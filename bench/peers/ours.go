package peers

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

// ours is a session of this project's library, with all defaults but the session's timeout.
type ours struct {
	s     *client.Session
	locks map[string]*lock.Mutex
}

func openOurs(ctx context.Context, addr string) (contender, error) {
	s, err := client.Open(ctx, addr, client.Options{SessionTimeout: sessionTimeout})
	if err != nil {
		return nil, err
	}
	return &ours{s, map[string]*lock.Mutex{}}, nil
}

// cycle uses a directory that no other library does: it is a container, which the server removes when it is empty, and
// kazoo does not expect that.
func (o *ours) cycle(ctx context.Context, name string) (err error) {
	m := o.locks[name]
	if m == nil {
		if m, err = lock.NewMutex(o.s, "/bench-lockkeeper/"+name, lock.Options{}); err != nil {
			return err
		}
		o.locks[name] = m
	}
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return h.Release(ctx)
}

func (o *ours) close() { o.s.Close(context.Background()) }
