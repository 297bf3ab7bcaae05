package peers

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// FloorRecordBytes is about what one transaction of a lock takes in a log.
const FloorRecordBytes = 200

// claimBytes is about what the data of a claim takes.
const claimBytes = 120

// A floorLocker does the least that a lock needs: two synced round trips for a lock that is
// free, one to create and one to delete, and one for a lock that is handed over, since one deletion grants
// it to the next. Which client is next is settled within this process.
type floorLocker struct{ nc net.Conn }

// turns has a mutex for each lock.
var turns sync.Map

func turnOf(name string) *sync.Mutex {
	turn, _ := turns.LoadOrStore(name, new(sync.Mutex))
	return turn.(*sync.Mutex)
}

// openFloor writes to a process that does nothing but write, sync and answer.
func openFloor(ctx context.Context, addr string) (contender, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &floorLocker{nc}, nil
}

// write is a synced round trip.
func (f *floorLocker) write() error {
	record := make([]byte, FloorRecordBytes)
	if _, err := f.nc.Write(record); err != nil {
		return err
	}
	_, err := io.ReadFull(f.nc, record)
	return err
}

func (f *floorLocker) cycle(_ context.Context, name string) error {
	turn := turnOf(name)
	free := turn.TryLock()
	if !free {
		turn.Lock()
	}
	defer turn.Unlock()
	if free {
		if err := f.write(); err != nil {
			return err
		}
	}
	return f.write()
}

func (f *floorLocker) close() { f.nc.Close() }

// A requestsLocker makes the requests of a lock whose queue is listed, by this project's client: it creates a claim and lists the
// queue with one write, and deletes the claim. It sets no watches and looks at nothing: which client is next is settled within
// this process.
type requestsLocker struct{ s *client.Session }

func openRequests(ctx context.Context, addr string) (contender, error) {
	s, err := client.Open(ctx, addr, client.Options{SessionTimeout: sessionTimeout})
	if err != nil {
		return nil, err
	}
	return &requestsLocker{s}, nil
}

func (r *requestsLocker) cycle(ctx context.Context, name string) error {
	dir := "/" + name + "-requests"
	for {
		p := r.s.Pipeline()
		made := p.Create(dir+"/_c_00000000000000000000000000000000-lock-", make([]byte, claimBytes), zk.EphemeralSequential, nil)
		listed := p.Children(dir)
		p.Send(ctx)
		claim, err := made.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := r.s.EnsurePath(ctx, dir, nil); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if _, err := listed.Wait(ctx); err != nil {
			return err
		}
		turn := turnOf(name)
		turn.Lock()
		defer turn.Unlock()
		return r.s.Delete(ctx, claim.Path, zk.AnyVersion)
	}
}

func (r *requestsLocker) close() { r.s.Close(context.Background()) }
