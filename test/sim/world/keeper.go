package world

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/server"
)

const (
	keeperAddress = "keeper:2181"
	dataDir       = "/data"
	versionDir    = dataDir + "/version-2"
)

// A keeper is the server with what it runs on.
type keeper struct {
	w    *World
	life chan struct{} // holds one token, for whoever starts the server or takes it down

	mu     sync.Mutex // guards what follows
	disk   *disk
	server *server.Server // nil while it is down

	served sync.WaitGroup
}

func startKeeper(w *World) *keeper {
	k := &keeper{w: w, life: make(chan struct{}, 1), disk: &disk{Mem: vfs.NewMem(), sync: w.plan.Sync}}
	k.life <- struct{}{}
	k.open()
	return k
}

// open starts the server on its disk.
func (k *keeper) open() {
	srv, err := server.Open(server.Options{
		DataDir: dataDir, FS: k.disk, TickTime: k.w.plan.Tick, ConnectionsPerAddressMax: -1,
		PreAllocBytes: preAllocBytes, SnapCount: snapCount,
	})
	if err != nil {
		k.w.violated("I6: the server does not start: %v", err)
		return
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

const (
	preAllocBytes = 16 << 10
	snapCount     = 60 // few, so that restarts find snapshots with a log behind them
)

// now returns the server, nil if it is down.
func (k *keeper) now() *server.Server {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.server
}

// crash takes power away for a while. What was not synced is lost, in parts.
func (k *keeper) crash(down time.Duration, rnd *rand.Rand) {
	<-k.life
	defer func() { k.life <- struct{}{} }()
	// First nothing is acknowledged any more, then the disk is taken as it is.
	k.w.net.Link("", keeperAddress).Refuse()
	k.w.net.Link("", keeperAddress).Cut()
	left := k.disk.CrashClone(rnd)
	k.stop()
	k.mu.Lock()
	k.disk = &disk{Mem: left, sync: k.w.plan.Sync}
	k.mu.Unlock()
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
