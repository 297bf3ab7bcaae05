package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/test/sim/replica"
)

const (
	keeperAddress = "keeper:2181"
	dataDir       = "/data"
	versionDir    = dataDir + "/version-2"
)

// A keeper is the server with what it runs on.
type keeper struct {
	w    *World
	life chan struct{} // holds one token, for the goroutine that starts the server or takes it down

	mu     sync.Mutex // guards what follows
	disk   *disk
	server *server.Server // nil while it is down

	served sync.WaitGroup

	longest time.Duration // session timeout that it grants; 0 is the default. Changed while the server is down

	followers []*replica.Replica // fixed when the world has begun
	told      int64              // zxid of the last transaction that they know of; owned by the goroutine that syncs
}

func startKeeper(w *World) *keeper {
	k := &keeper{w: w, life: make(chan struct{}, 1), disk: newDisk(w, vfs.NewMem())}
	k.life <- struct{}{}
	k.open()
	return k
}

// open starts the server on its disk.
func (k *keeper) open() {
	srv, err := server.Open(bridge.OnDisk(server.Options{
		DataDir: dataDir, TickTime: k.w.plan.Tick, ConnectionsPerAddressMax: -1,
		PreAllocBytes: preAllocBytes, SnapCount: snapCount, SnapRetain: -1,
		ReapInterval: k.reapInterval(), MaxSessionTimeout: k.longest,
	}, k.disk))
	if err != nil {
		k.w.violated("I6: the server does not start: %v", err)
		return
	}
	if k.followers != nil {
		k.tell() // what was under way when power failed may have reached the disk
		k.disk.synced = k.tell
	}
	ln, err := k.w.net.Listen(keeperAddress)
	if err != nil {
		panic(err)
	}
	k.mu.Lock()
	k.server = srv
	k.mu.Unlock()
	k.served.Go(func() {
		if err := srv.Serve(ln); !errors.Is(err, server.ErrClosed) {
			k.w.violated("the server stopped by itself: %v", err)
		}
	})
	k.w.net.Link("", keeperAddress).Heal()
}

// reapInterval is how often directories that are not needed any more are deleted: all the time in some worlds, so that locks
// are made anew again and again, and never in the others.
func (k *keeper) reapInterval() time.Duration {
	if k.w.plan.Seed%4 == 0 {
		return k.w.plan.Tick
	}
	return time.Hour
}

const (
	preAllocBytes = 16 << 10
	snapCount     = 60 // few, so that restarts find snapshots with a log behind them
)

// follow starts a follower.
func (k *keeper) follow(n int) {
	name := followerName(n)
	ln, err := k.w.net.Listen(name + ":2181")
	if err != nil {
		panic(err)
	}
	dial := func() (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return k.w.net.DialAs(ctx, name, keeperAddress)
	}
	k.followers = append(k.followers, replica.New(name, ln, dial, k.w.plan.Tick, followerLag))
	k.tell()
	k.disk.synced = k.tell
}

func followerName(n int) string { return fmt.Sprint("follower", n) }

// followerLag is how far followers are behind when all is well.
const followerLag = 2 * time.Millisecond

// servers is the list that processes know.
func (k *keeper) servers() string {
	list := keeperAddress
	for i := range k.followers {
		list += "," + followerName(i) + ":2181"
	}
	return list
}

// tell passes on to the followers what the log has got.
func (k *keeper) tell() {
	for _, t := range k.disk.newTxns() {
		if t.Zxid > k.told {
			k.told = t.Zxid
			for _, r := range k.followers {
				r.Feed(t)
			}
		}
	}
}

// watches returns how many watches the servers have.
func (k *keeper) watches() int {
	n := k.now().Stats().Watches
	for _, r := range k.followers {
		n += r.Watches()
	}
	return n
}

// now returns the server, nil if it is down.
func (k *keeper) now() *server.Server {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.server
}

// crash takes power away for a while. What was not synced is lost, in parts.
func (k *keeper) crash(down time.Duration, rnd *rand.Rand) { k.restart(down, rnd, func() {}) }

// restart is crash with a change while the server is down.
func (k *keeper) restart(down time.Duration, rnd *rand.Rand, change func()) {
	<-k.life
	defer func() { k.life <- struct{}{} }()
	// First nothing is acknowledged any more, then the disk is taken as it is.
	k.w.net.Link("", keeperAddress).Refuse()
	k.w.net.Link("", keeperAddress).Cut()
	left := k.disk.CrashClone(rnd)
	k.stop()
	k.mu.Lock()
	k.disk = newDisk(k.w, left)
	k.mu.Unlock()
	change()
	time.Sleep(max(down, time.Millisecond)) // ids of sessions are made of the millisecond of the start
	k.open()
}

// stop ends the server, if it runs.
func (k *keeper) stop() {
	k.mu.Lock()
	srv := k.server
	k.server = nil
	k.mu.Unlock()
	if srv == nil {
		return
	}
	k.disk.off.Store(true)
	if err := srv.Close(); err != nil {
		k.w.violated("close the server: %v", err)
	}
	k.served.Wait()
}

func (k *keeper) close() {
	<-k.life
	k.stop()
}
