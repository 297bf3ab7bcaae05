package peers

import (
	"context"
	"io"
	"net"
	"sync"
)

// FloorRecordBytes is about what one transaction of a lock takes in a log.
const FloorRecordBytes = 200

// A floored does what nobody can do without, and nothing else: two synced round trips for a lock that is
// free, one to create and one to delete, and one for a lock that is handed over, since one deletion grants
// it to the next. Who is next is settled within this process.
type floored struct{ nc net.Conn }

// turns has a mutex for each lock.
var turns sync.Map

func openFloor(ctx context.Context, addr string) (contender, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &floored{nc}, nil
}

func (f *floored) cycle(ctx context.Context, name string) error {
	v, _ := turns.LoadOrStore(name, new(sync.Mutex))
	turn := v.(*sync.Mutex)
	free := turn.TryLock()
	if !free {
		turn.Lock()
	}
	defer turn.Unlock()
	if free {
		if err := f.exchange(); err != nil {
			return err
		}
	}
	return f.exchange()
}

func (f *floored) exchange() error {
	record := make([]byte, FloorRecordBytes)
	if _, err := f.nc.Write(record); err != nil {
		return err
	}
	_, err := io.ReadFull(f.nc, record)
	return err
}

func (f *floored) close() { f.nc.Close() }
