package locksuite

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/server"
)

// What our server runs with: its defaults but for the tick.
const (
	memoryTick    = 2 * time.Second
	memoryTimeout = 10 * time.Second
	memoryAddress = "keeper:2181"
)

// Memory is the server of this project, in the process: a disk and a network in memory, and virtual
// time.
func Memory() Backend {
	return Backend{Ours: true, Bubble: synctest.Test, Start: func(t *testing.T) Ensemble { return startMemory(t).ensemble() }}
}

// A memory is one server in memory, with what it runs on.
type memory struct {
	t    *testing.T
	disk *vfs.Mem
	net  *memnet.Network
	*server.Server
	served chan struct{} // closed when Serve has returned
}

// startMemory starts a server whose tree holds the given znodes besides the usual ones.
func startMemory(t *testing.T, nodes ...txn.Node) *memory {
	m := &memory{t: t, disk: vfs.NewMem(), net: memnet.New()}
	if len(nodes) > 0 {
		m.seed(nodes)
	}
	m.start()
	t.Cleanup(m.stop)
	return m
}

func (m *memory) ensemble() Ensemble {
	return Ensemble{
		Servers: memoryAddress, Tick: memoryTick, Timeout: memoryTimeout, Virtual: true,
		Dial: m.net.Dialer(""), Clock: &clock.Clock{}, server: m,
	}
}

const memoryDir = "/data"

func (m *memory) start() {
	var err error
	m.Server, err = server.Open(bridge.OnDisk(server.Options{
		DataDir: memoryDir, TickTime: memoryTick, MaxSessionTimeout: 10 * time.Hour, // no limit on what a test may ask for
		ConnectionsPerAddressMax: -1, PreAllocBytes: 64 << 10, // all of it is memory
		ApachePasswords: true, // World.Expire computes them
	}, m.disk))
	if err != nil {
		m.t.Fatal(err)
	}
	ln, err := m.net.Listen(memoryAddress)
	if err != nil {
		m.t.Fatal(err)
	}
	m.served = make(chan struct{})
	go func() {
		defer close(m.served)
		if err := m.Serve(ln); !errors.Is(err, server.ErrClosed) {
			m.t.Errorf("the server stopped by itself: %v", err)
		}
	}()
}

func (m *memory) stop() {
	if err := m.Server.Close(); err != nil {
		m.t.Errorf("close the server: %v", err)
	}
	<-m.served
}

// seed writes a snapshot for the server to start from: some states, such as a counter near its end,
// would take too many requests to reach.
func (m *memory) seed(nodes []txn.Node) {
	root := txn.Node{Path: "", ACLID: txn.OpenACLID}
	s, err := store.Open(m.disk, store.Options{DataDir: memoryDir, LogDir: memoryDir}, noLoader{})
	if err != nil {
		m.t.Fatal(err)
	}
	err = s.WriteSnapshot(context.Background(), &seedSource{nodes: append([]txn.Node{root}, nodes...)})
	if err = errors.Join(err, s.Close()); err != nil {
		m.t.Fatal(err)
	}
}

// A noLoader is for a disk that has nothing to load.
type noLoader struct{}

func (noLoader) Reset()                                         {}
func (noLoader) Session(txn.SessionEntry) error                 { return nil }
func (noLoader) ACL(txn.ACLEntry) error                         { return nil }
func (noLoader) Node(txn.Node) error                            { return nil }
func (noLoader) EndSnapshot(int64, *store.SnapshotDigest) error { return nil }
func (noLoader) Apply(*txn.Txn, *txn.Digest) error              { return nil }

// A seedSource is a snapshot of a few znodes.
type seedSource struct{ nodes []txn.Node }

func (s *seedSource) Zxid() int64                   { return 1 }
func (s *seedSource) Sessions() []txn.SessionEntry  { return nil }
func (s *seedSource) ACLs() []txn.ACLEntry          { return nil }
func (s *seedSource) Digest() *store.SnapshotDigest { return nil }
func (s *seedSource) Next(buf []txn.Node) ([]txn.Node, error) {
	buf, s.nodes = append(buf, s.nodes...), nil
	return buf, nil
}
