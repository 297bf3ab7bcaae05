// Package peers takes and gives back locks with other people's libraries, and with ours, all under the
// same workloads: that is one cycle. Every client has a session, or a connection, of its own.
package peers

import (
	"context"
	"runtime/debug"
	"time"
)

// A Workload says how many clients take how many locks in turn: client i the lock i modulo Locks.
type Workload struct {
	Name           string
	Clients, Locks int
}

// Workloads are what is measured.
var Workloads = []Workload{
	{"1 client", 1, 1},
	{"8 on one lock", 8, 1},
	{"64 on 64 locks", 64, 64},
}

// A Result is what came of one run. Times are in microseconds.
type Result struct {
	Cycles  int64   `json:"cycles"`
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
}

// Rate returns the cycles per second.
func (r Result) Rate() float64 { return float64(r.Cycles) / r.Seconds }

// An Engine is what a library needs to run.
type Engine int

// The engines.
const (
	Ours Engine = iota
	Apache
	Etcd
	Redis
	Bare // no engine: a server that writes down what it gets, syncs, and sends it back
)

// A Library is one way to lock.
type Library struct {
	Name    string
	Engine  Engine
	Version func() string
	Tuned   string // how it is set up, where that is not its default
	Process bool   // each run is a process of its own
	run     func(ctx context.Context, addr string, w Workload, warm, each time.Duration) (Result, error)
}

// Run runs a workload against the engine at addr: at first without counting, for as long as warm.
func (l Library) Run(ctx context.Context, addr string, w Workload, warm, each time.Duration) (Result, error) {
	return l.run(ctx, addr, w, warm, each)
}

// What bounds the others on this machine: all, and those that list a queue on our server and on Apache ZooKeeper.
const (
	FloorName          = "the floor"
	OurRequestsName    = "the requests of a lock on lockkeeper's server"
	ApacheRequestsName = "the requests of a lock on Apache ZooKeeper"
)

// Libraries are what is compared; the first two are ours.
var Libraries = []Library{
	{"lockkeeper on its own server", Ours, ourVersion, "", false, inProcess(openOurs)},
	{"lockkeeper on Apache ZooKeeper", Apache, ourVersion, "", false, inProcess(openOurs)},
	{"go-zookeeper", Apache, moduleVersion("github.com/go-zookeeper/zk"), "", false, inProcess(openGoZookeeper)},
	{"Curator", Apache, debianVersion("libcurator-recipes-java"),
		"InterProcessMutex, a CuratorFramework for each thread; no bounds on the JVM's threads, heap 1 GB", true, foreign(curator)},
	{"kazoo", Apache, debianVersion("python3-kazoo"), "KazooClient with its threading handler, all in one process", true, foreign(kazoo)},
	{"etcd concurrency", Etcd, moduleVersion("go.etcd.io/etcd/client/v3"), "concurrency.Mutex, a client and a lease for each", false, inProcess(openEtcd)},
	{"redsync (unfair, one server)", Redis, moduleVersion("github.com/go-redsync/redsync/v4"),
		"tries again every 0.5 ms and for as long as it takes; its default is 50 to 250 ms, 32 times", false, inProcess(openRedsync)},
	{OurRequestsName, Ours, ourVersion, "no locks at all: create and list in one write, and delete, by our client", false, inProcess(openRequests)},
	{ApacheRequestsName, Apache, ourVersion, "no locks at all: create and list in one write, and delete, by our client", false, inProcess(openRequests)},
	{FloorName, Bare, ourVersion, "no locks at all: two synced round trips for a free lock, one for a hand-over", false, inProcess(openFloor)},
}

func ourVersion() string { return "this checkout" }

// moduleVersion returns what says which version of a module this program is made with.
func moduleVersion(path string) func() string {
	return func() string {
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, m := range info.Deps {
				if m.Path == path {
					return m.Version
				}
			}
		}
		return "unknown"
	}
}
