package peers

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcd is a client of etcd with a lease.
type etcd struct {
	c *clientv3.Client
	s *concurrency.Session
}

func openEtcd(ctx context.Context, addr string) (contender, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: sessionTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(int(sessionTimeout/time.Second)))
	if err != nil {
		c.Close()
		return nil, err
	}
	return etcd{c, s}, nil
}

func (e etcd) cycle(ctx context.Context, name string) error {
	m := concurrency.NewMutex(e.s, "/bench/"+name)
	if err := m.Lock(ctx); err != nil {
		return err
	}
	return m.Unlock(ctx)
}

func (e etcd) close() {
	e.s.Close()
	e.c.Close()
}
