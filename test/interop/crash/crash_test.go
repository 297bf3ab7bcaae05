package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
)

var (
	kills = flag.Int("crash.kills", 15, "how often to kill the server")
	seed  = flag.Uint64("crash.seed", 0, "for what is random; 0 for another one each time")
)

const (
	sessions       = 4
	writersEach    = 4
	killAfterMin   = 10 * time.Millisecond
	killAfterMax   = 250 * time.Millisecond
	sessionTimeout = time.Second
	// In every one of so many rounds the sessions that died get the time to expire.
	expiryEvery = 5
	// expiryLimit bounds how long after its timeout a session may leave something: two ticks, and what a
	// busy machine takes.
	expiryLimit = 2*tick + 5*time.Second
	// survivorTimeout is longer than any crash, and than a busy machine keeps those waiting that audit.
	survivorTimeout = 30 * time.Second
	survivorPath    = "/survivor"
)

// A rig is one run of the test.
type rig struct {
	t        *testing.T
	server   *victim
	rng      *rand.Rand
	writers  []*writer
	survivor *session // comes back after every crash

	launched, killed time.Time
	lastSent         map[int64]time.Time // the last request that was answered, by the sessions of the last load

	happened, unanswered, violations int
}

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

func TestKill9(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	r := &rig{t: t, server: newVictim(t), rng: rand.New(rand.NewPCG(*seed, 0))}
	defer func() {
		acknowledged := 0
		for _, w := range r.writers {
			acknowledged += w.acknowledged
		}
		t.Logf("crash: kills=%d acknowledged=%d violations=%d unanswered=%d happened=%d seed=%d",
			*kills, acknowledged, r.violations, r.unanswered, r.happened, *seed)
	}()
	r.begin()
	for round := 1; round <= *kills; round++ {
		clients := r.open()
		r.load(clients)
		r.start()
		reader := openSession(t, r.server.addr, survivorTimeout, false)
		r.audit(reader)
		if round%expiryEvery == 0 || round == *kills {
			r.awaitExpiry(reader)
		}
	}
	r.checkSurvivor()
	r.load(r.open())
	r.auditByApache()
}

// begin starts the server for the first time and makes what the writers write below.
func (r *rig) begin() {
	r.start()
	r.survivor = openSession(r.t, r.server.addr, survivorTimeout, true)
	create := func(path string, flags int32) {
		if _, err := r.survivor.conn.Create(path, nil, flags, zk.WorldACL(zk.PermAll)); err != nil {
			r.t.Fatalf("create %s: %v", path, err)
		}
	}
	create(survivorPath, zk.FlagEphemeral)
	for i := range sessions * writersEach {
		w := &writer{dir: fmt.Sprintf("/w%d", i), rng: rand.New(rand.NewPCG(*seed, uint64(i+1)))}
		w.nodes = map[string]node{}
		create(w.dir, 0)
		r.writers = append(r.writers, w)
	}
}

func (r *rig) start() {
	r.launched = time.Now()
	r.server.start()
}

func (r *rig) open() []*session {
	clients := make([]*session, sessions)
	for i := range clients {
		clients[i] = openSession(r.t, r.server.addr, sessionTimeout, false)
	}
	return clients
}

// load lets all writers write until the server is killed.
func (r *rig) load(clients []*session) {
	r.lastSent = map[int64]time.Time{}
	var mu sync.Mutex // of what the writers report: lastSent and violations
	var wg sync.WaitGroup
	for i, w := range r.writers {
		s := clients[i/writersEach]
		wg.Go(func() {
			last, err := w.write(s)
			mu.Lock()
			defer mu.Unlock()
			if last.After(r.lastSent[s.id]) {
				r.lastSent[s.id] = last
			}
			if err != nil {
				r.violated("%v", err)
			}
		})
	}
	time.Sleep(killAfterMin + time.Duration(r.rng.Int64N(int64(killAfterMax-killAfterMin))))
	r.killed = time.Now()
	r.server.kill()
	wg.Wait()
}

// audit compares what is there with what every writer remembers.
func (r *rig) audit(reader *session) {
	for _, w := range r.writers {
		found, err := reader.read(w.dir)
		if err != nil {
			r.t.Fatal(err)
		}
		read := time.Now()
		pending := w.unanswered != nil
		faults, happened := w.judge(found, func(owner int64) bool {
			last, ok := r.lastSent[owner]
			return !ok || r.killed.Sub(last) >= sessionTimeout || read.Sub(r.launched) >= sessionTimeout
		})
		for _, f := range faults {
			r.violated("%s", f)
		}
		if pending {
			r.unanswered++
		}
		if happened {
			r.happened++
		}
	}
	ok, stat, err := reader.conn.Exists(survivorPath)
	if err != nil {
		r.t.Fatal(err)
	}
	if !ok || stat.EphemeralOwner != r.survivor.id {
		r.violated("%s of a session that lives is missing", survivorPath)
	}
}

// auditByApache has Apache ZooKeeper open what the last kill has left.
func (r *rig) auditByApache() {
	r.launched = time.Now()
	a := apache.Start(r.t, apache.Options{Tick: tick, Seed: r.server.data, Config: map[string]string{"maxSessionTimeout": "60000"}})
	r.audit(openSession(r.t, a.Addr(), survivorTimeout, false))
}

// awaitExpiry waits until nothing is left of the sessions that died with the server.
func (r *rig) awaitExpiry(reader *session) {
	deadline := r.launched.Add(sessionTimeout + expiryLimit)
	for _, w := range r.writers {
		for {
			found, err := reader.read(w.dir)
			if err != nil {
				r.t.Fatal(err)
			}
			left := ""
			for path, n := range found {
				if n.owner != 0 {
					left = path
				}
			}
			if left == "" {
				break
			}
			if time.Now().After(deadline) {
				r.violated("%s outlives its session", left)
				break
			}
			time.Sleep(tick / 10)
		}
	}
}

// checkSurvivor sees whether the session that went through all the crashes is the same still.
func (r *rig) checkSurvivor() {
	ok, _, err := r.survivor.conn.Exists(survivorPath)
	for deadline := time.Now().Add(sessionLimit); err != nil && time.Now().Before(deadline); time.Sleep(tick) {
		ok, _, err = r.survivor.conn.Exists(survivorPath)
	}
	if id := r.survivor.conn.SessionID(); err != nil || !ok || id != r.survivor.id {
		r.violated("the session 0x%x that outlives crashes is 0x%x; its znode: %v, %v", r.survivor.id, id, ok, err)
	}
}

func (r *rig) violated(format string, args ...any) {
	r.violations++
	r.t.Errorf("violation: "+format, args...)
}
