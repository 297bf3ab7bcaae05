package peers

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// FloorRecordBytes is about what one transaction of a lock takes in a log.
const FloorRecordBytes = 200

// A floorLocker does the least that a lock needs: two synced round trips for a lock that is
// free, one to create and one to delete, and one for a lock that is handed over, since one deletion grants
// it to the next. Which client is next is settled within this process.
type floorLocker struct {
	write func(ctx context.Context, record []byte) error // a synced round trip
	end   func()
}

// turns has a mutex for each lock.
var turns sync.Map

// openFloor writes to a process that does nothing but write, sync and answer.
func openFloor(ctx context.Context, addr string) (contender, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	exchange := func(_ context.Context, record []byte) error {
		if _, err := nc.Write(record); err != nil {
			return err
		}
		_, err := io.ReadFull(nc, record)
		return err
	}
	return &floorLocker{exchange, func() { nc.Close() }}, nil
}

// openZooKeeperFloor writes to a znode of its own, with a session of this project's client.
func openZooKeeperFloor(ctx context.Context, addr string) (contender, error) {
	s, err := client.Open(ctx, addr, client.Options{SessionTimeout: sessionTimeout})
	if err != nil {
		return nil, err
	}
	made, err := s.Create(ctx, "/floor-", nil, zk.EphemeralSequential, nil)
	if err != nil {
		s.Close(ctx)
		return nil, err
	}
	set := func(ctx context.Context, record []byte) error {
		_, err := s.Set(ctx, made.Path, record, -1)
		return err
	}
	return &floorLocker{set, func() { s.Close(context.Background()) }}, nil
}

func (f *floorLocker) cycle(ctx context.Context, name string) error {
	v, _ := turns.LoadOrStore(name, new(sync.Mutex))
	turn := v.(*sync.Mutex)
	free := turn.TryLock()
	if !free {
		turn.Lock()
	}
	defer turn.Unlock()
	record := make([]byte, FloorRecordBytes)
	if free {
		if err := f.write(ctx, record); err != nil {
			return err
		}
	}
	return f.write(ctx, record)
}

func (f *floorLocker) close() { f.end() }
