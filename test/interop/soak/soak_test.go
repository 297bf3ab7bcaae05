package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

var (
	howLong = flag.Duration("soak.time", 20*time.Second, "how long to go on")
	seed    = flag.Uint64("soak.seed", 0, "for what is random; 0 for another one each time")
)

const (
	clients = 100
	locks   = 10_000
	periods = 6 // the clients rest and are looked at after each; the first is to warm up
	// cancelAfter bounds every wait: some are given up.
	cancelAfter = 50 * time.Millisecond
	// restLimit bounds how long what has been given up may take to be gone when no client works.
	restLimit = 30 * time.Second
	// Memory may be so much more in the end than half-way, when most of the locks have been made.
	memoryFactor = 1.25
	memorySlack  = 32 << 20
)

// A reading is what was seen while all clients rested.
type reading struct {
	goroutines, descriptors        int // of ours
	heap                           int
	serverRSS, serverDescriptors   int
	watches, znodes, ephemerals    int
	connections                    int
	cycles, givenUp, sessionsEnded int64
}

func (r reading) String() string {
	return fmt.Sprintf("client: goroutines=%d fds=%d heap=%dK; server: rss=%dM fds=%d watches=%d znodes=%d ephemerals=%d connections=%d; cycles=%d given_up=%d sessions_renewed=%d",
		r.goroutines, r.descriptors, r.heap>>10, r.serverRSS>>20, r.serverDescriptors, r.watches, r.znodes, r.ephemerals, r.connections, r.cycles, r.givenUp, r.sessionsEnded)
}

// A rig is one run.
type rig struct {
	t       *testing.T
	addr    string
	server  *exec.Cmd
	clients []*worker

	cycles, givenUp, renewed atomic.Int64
}

func TestSoak(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	r := newRig(t)
	var readings []reading
	violations := 0
	for range periods {
		r.work(*howLong / periods)
		got := r.rest()
		t.Log(got)
		readings = append(readings, got)
	}
	first, middle, last := readings[0], readings[periods/2], readings[periods-1]
	flat := func(what string, got, limit int) {
		if got > limit {
			violations++
			t.Errorf("%s: %d, at most %d would be flat", what, got, limit)
		}
	}
	memory := func(n int) int { return int(memoryFactor*float64(n)) + memorySlack }
	flat("goroutines", last.goroutines, first.goroutines)
	flat("descriptors", last.descriptors, first.descriptors)
	flat("heap", last.heap, memory(middle.heap))
	flat("the server's memory", last.serverRSS, memory(middle.serverRSS))
	flat("the server's descriptors", last.serverDescriptors, first.serverDescriptors+2) // a snapshot may be under way
	flat("watches", last.watches, 0)
	flat("ephemeral znodes", last.ephemerals, 0)
	flat("znodes", last.znodes, 3*locks) // a directory each, and what belongs to a semaphore's
	t.Logf("soak: seconds=%.0f clients=%d locks=%d cycles=%d violations=%d seed=%d", howLong.Seconds(), clients, locks, last.cycles, violations, *seed)
}

func newRig(t *testing.T) *rig {
	dir := t.TempDir()
	binary := filepath.Join(dir, "lockkeeper")
	if err := proc.BuildCommand(binary); err != nil {
		t.Fatal(err)
	}
	addr, err := proc.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, addr: addr}
	r.server = exec.Command(binary, "server", "--data", filepath.Join(dir, "data"), "--listen", r.addr,
		"--set", "maxClientCnxns=0", "--set", "4lw.commands.whitelist=mntr")
	process, err := proc.Start(r.server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	for i := range clients {
		w := &worker{rig: r, rng: rand.New(rand.NewPCG(*seed, uint64(i)))}
		w.open()
		r.clients = append(r.clients, w)
		t.Cleanup(func() { w.s.Close(context.Background()) })
	}
	return r
}

// work has all clients work for a while.
func (r *rig) work(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var wg sync.WaitGroup
	for _, w := range r.clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				w.step()
			}
		})
	}
	wg.Wait()
}

// rest reads everything, when what was given up is gone and no goroutine is about to end.
func (r *rig) rest() (got reading) {
	for deadline := time.Now().Add(restLimit); ; time.Sleep(100 * time.Millisecond) {
		before := got.goroutines
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		status := r.monitor()
		got = reading{
			goroutines: runtime.NumGoroutine(), descriptors: descriptors("self"), heap: int(m.HeapAlloc),
			serverRSS: r.serverRSS(), serverDescriptors: descriptors(strconv.Itoa(r.server.Process.Pid)),
			watches: status["zk_watch_count"], znodes: status["zk_znode_count"], ephemerals: status["zk_ephemerals_count"],
			connections: status["zk_num_alive_connections"],
			cycles:      r.cycles.Load(), givenUp: r.givenUp.Load(), sessionsEnded: r.renewed.Load(),
		}
		calm := got.watches == 0 && got.ephemerals == 0 && got.connections <= clients+1 && got.goroutines == before
		if calm || time.Now().After(deadline) {
			return got
		}
	}
}

// monitor asks the server how it is.
func (r *rig) monitor() map[string]int {
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(restLimit))
	io.WriteString(nc, "mntr")
	values := map[string]int{}
	for lines := bufio.NewScanner(nc); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "\t"); ok {
			values[name], _ = strconv.Atoi(value)
		}
	}
	if len(values) == 0 {
		r.t.Fatal("mntr says nothing")
	}
	return values
}

func (r *rig) serverRSS() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.server.Process.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var kib int
		if n, _ := fmt.Sscanf(string(line), "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	r.t.Fatal("the server's memory is not known")
	return 0
}

func descriptors(process string) int {
	open, _ := os.ReadDir("/proc/" + process + "/fd")
	return len(open)
}

// A worker is a client.
type worker struct {
	rig *rig
	rng *rand.Rand
	s   *client.Session
}

func (w *worker) open() {
	ctx, cancel := context.WithTimeout(context.Background(), restLimit)
	defer cancel()
	s, err := client.Open(ctx, w.rig.addr, client.Options{SessionTimeout: 20 * time.Second})
	if err != nil {
		w.rig.t.Error(err)
		runtime.Goexit()
	}
	w.s = s
}

// step does something with a lock.
func (w *worker) step() {
	n := w.rng.IntN(locks)
	if w.rng.IntN(2) == 0 {
		n %= 50 // so that there are waits
	}
	if w.rng.IntN(2000) == 0 {
		w.s.Close(context.Background())
		w.open()
		w.rig.renewed.Add(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelAfter)
	defer cancel()
	holds, err := w.acquire(ctx, n)
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrBusy):
		w.rig.givenUp.Add(1)
	case err != nil:
		w.rig.t.Error(err)
	}
	for _, h := range holds {
		if err := h.Release(context.Background()); err != nil {
			w.rig.t.Error(err)
		}
		w.rig.cycles.Add(1)
	}
}

// acquire gets lock n, whose kind is by its number.
func (w *worker) acquire(ctx context.Context, n int) ([]*lock.Hold, error) {
	path := fmt.Sprintf("/soak/%d", n)
	one := func(h *lock.Hold, err error) ([]*lock.Hold, error) {
		if err != nil {
			return nil, err
		}
		return []*lock.Hold{h}, nil
	}
	switch n % 4 {
	case 0:
		m, err := lock.NewRWMutex(w.s, path, lock.Options{})
		if err != nil {
			return nil, err
		}
		if w.rng.IntN(3) > 0 {
			return one(m.RLock(ctx))
		}
		return one(m.Lock(ctx))
	case 1:
		m, err := lock.NewSemaphore(w.s, path, 3, lock.Options{})
		if err != nil {
			return nil, err
		}
		holds, err := m.AcquireN(ctx, 1+w.rng.IntN(3))
		if err != nil {
			return nil, err
		}
		return holds.All(), nil
	}
	m, err := lock.NewMutex(w.s, path, lock.Options{})
	if err != nil {
		return nil, err
	}
	if w.rng.IntN(4) == 0 {
		return one(m.TryLock(ctx))
	}
	return one(m.Lock(ctx))
}
