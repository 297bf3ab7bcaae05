package peers

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncDelay is how long redsync waits before it tries again.
const redsyncDelay = 500 * time.Microsecond

// aRedsync is a connection to Redis.
type aRedsync struct {
	c *redis.Client
	r *redsync.Redsync
}

func openRedsync(ctx context.Context, addr string) (contender, error) {
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	if err := c.Ping(ctx).Err(); err != nil {
		c.Close()
		return nil, err
	}
	return aRedsync{c, redsync.New(goredis.NewPool(c))}, nil
}

func (r aRedsync) cycle(ctx context.Context, name string) error {
	m := r.r.NewMutex(name, redsync.WithExpiry(sessionTimeout), redsync.WithTries(math.MaxInt32), redsync.WithRetryDelay(redsyncDelay))
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	_, err := m.UnlockContext(ctx)
	return err
}

func (r aRedsync) close() { r.c.Close() }
