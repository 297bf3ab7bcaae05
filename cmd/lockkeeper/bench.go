package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"math/bits"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// benchPath is where bench makes its locks.
const benchPath = "/lockkeeper/bench"

// Limits of bench.
const (
	benchClientsMax   = 1000
	benchCleanupLimit = 5 * time.Second
	// benchStuckLimit is how long no client may get a lock: the keeper starts again within seconds, and an
	// ensemble finds another leader.
	benchStuckLimit = 30 * time.Second
)

// benchFlags are the flags of bench.
type benchFlags struct {
	accessFlags
	clients, locks int
	shared, asJSON bool
	duration       time.Duration
}

func newBench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast locks are",
		Long: `Measure how fast locks are: every client, with a session of its own, gets a mutex
and gives it back as often as it can. The time of such a cycle includes the wait
for the others. Each client has a lock of its own, unless --locks gives them
fewer, or --shared one for all.

The locks are made below ` + benchPath + ` and deleted in the end.`,
		Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags().Changed("locks")); err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			to, err := f.settings()
			if err != nil {
				return err
			}
			r, err := bench(ctx, f, to)
			if err != nil {
				return orInterrupted(ctx, explained(fmt.Errorf("bench: %w", err), to))
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return printTable(cmd.OutOrStdout(), r.table())
		},
	}
	f.addTo(cmd, makingFlags)
	addJSONFlag(cmd, &f.asJSON)
	flags := cmd.Flags()
	flags.IntVar(&f.clients, "clients", 1, "how many clients")
	flags.IntVar(&f.locks, "locks", 0, "how many locks the clients share out among them (default one each)")
	flags.BoolVar(&f.shared, "shared", false, "one lock for all clients")
	flags.DurationVar(&f.duration, "duration", 5*time.Second, "how long to measure")
	return cmd
}

// check refuses contradictions, and fills in what was left out.
func (f *benchFlags) check(locksGiven bool) error {
	switch {
	case f.clients < 1 || f.clients > benchClientsMax:
		return exit.Errorf(exit.Usage, "--clients %d: must be from 1 to %d", f.clients, benchClientsMax)
	case f.shared && locksGiven:
		return exit.Errorf(exit.Usage, "--shared and --locks: it is one or the other")
	case locksGiven && (f.locks < 1 || f.locks > f.clients):
		return exit.Errorf(exit.Usage, "--locks %d: must be from 1 to the number of clients, %d", f.locks, f.clients)
	case f.duration <= 0:
		return exit.Errorf(exit.Usage, "--duration %v: must be longer than nothing", f.duration)
	case f.shared:
		f.locks = 1
	case !locksGiven:
		f.locks = f.clients
	}
	return nil
}

// A benchResult is what bench has measured. Times are in microseconds.
type benchResult struct {
	Servers          string  `json:"servers"`
	Clients          int     `json:"clients"`
	Locks            int     `json:"locks"`
	Shared           bool    `json:"shared"` // one lock for all
	Seconds          float64 `json:"seconds"`
	Cycles           int64   `json:"cycles"`
	CyclesPerSecond  float64 `json:"cycles_per_second"`
	P50              float64 `json:"p50_us"`
	P99              float64 `json:"p99_us"`
	P999             float64 `json:"p999_us"`
	Max              float64 `json:"max_us"`
	RequestsPerCycle float64 `json:"requests_per_cycle"` // without those that keep sessions alive
}

func (r *benchResult) table() [][]string {
	return [][]string{
		{"CLIENTS", "LOCKS", "CYCLES/S", "P50", "P99", "P99.9", "MAX", "REQUESTS/CYCLE"},
		{strconv.Itoa(r.Clients), strconv.Itoa(r.Locks), strconv.FormatFloat(r.CyclesPerSecond, 'f', 0, 64),
			rounded(r.P50), rounded(r.P99), rounded(r.P999), rounded(r.Max), strconv.FormatFloat(r.RequestsPerCycle, 'f', 2, 64)},
	}
}

// rounded returns so many microseconds with three digits, in the unit that suits them.
func rounded(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	digit := time.Nanosecond
	for digit*1000 <= d {
		digit *= 10
	}
	return d.Round(digit).String()
}

// bench measures.
func bench(ctx context.Context, f benchFlags, to access.Settings) (r benchResult, err error) {
	dir := zk.Join(benchPath, rand.Text())
	servant, servers, err := openCommand(ctx, to)
	if err != nil {
		return r, err
	}
	r.Servers = servers
	var runners []*benchRunner
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), benchCleanupLimit)
		defer cancel()
		var closing sync.WaitGroup
		for _, b := range runners {
			closing.Go(func() { b.session.Close(ctx) })
		}
		closing.Wait()
		removeLocks(ctx, servant, dir, f.locks) // when the clients have gone, with all they may have left
		servant.Close(ctx)
	}()
	for i := range f.clients {
		s, _, err := openCommand(ctx, to)
		if err != nil {
			if i > 0 {
				err = fmt.Errorf("after %d others: does the server limit the connections of one address (maxClientCnxns)? %w", i, err)
			}
			return r, fmt.Errorf("client %d: %w", i+1, err)
		}
		b := &benchRunner{session: s}
		runners = append(runners, b)
		if b.mutex, err = lock.NewMutex(s, zk.Join(dir, strconv.Itoa(i%f.locks)), lock.Options{Label: "bench", ACL: to.MadeACL(), ParentACL: to.MadeACL()}); err != nil {
			return r, err
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	var cycles atomic.Int64
	var all, watch sync.WaitGroup
	watch.Go(func() { failIfStuck(ctx, fail, &cycles) })
	defer func() { fail(nil); watch.Wait() }()
	for _, b := range runners { // makes the directories, and shows what is wrong before the clock runs
		if err := b.cycle(ctx); err != nil {
			return r, err
		}
		cycles.Add(1)
	}
	begin := time.Now()
	for _, b := range runners {
		all.Go(func() {
			if err := b.run(ctx, begin.Add(f.duration), &cycles); err != nil {
				fail(err)
			}
		})
	}
	showing, hide := context.WithCancel(ctx)
	var shown sync.WaitGroup
	shown.Go(func() { showBench(showing, begin, f.duration, &cycles) })
	all.Wait()
	took := time.Since(begin)
	hide()
	shown.Wait()
	if err := context.Cause(ctx); err != nil {
		return r, err
	}

	var h histogram
	requests := uint64(0)
	for _, b := range runners {
		h.merge(&b.times)
		requests += b.requests
	}
	r.Clients, r.Locks, r.Shared = f.clients, f.locks, f.shared || f.locks == 1 && f.clients > 1
	r.Seconds, r.Cycles = took.Seconds(), h.count
	r.CyclesPerSecond = float64(h.count) / took.Seconds()
	r.RequestsPerCycle = float64(requests) / float64(h.count)
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	r.P50, r.P99, r.P999, r.Max = us(h.quantile(0.5)), us(h.quantile(0.99)), us(h.quantile(0.999)), us(h.max)
	return r, nil
}

// A benchRunner is one client. The goroutine of run owns it until that returns.
type benchRunner struct {
	session  *client.Session
	mutex    *lock.Mutex
	times    histogram
	requests uint64
}

func (b *benchRunner) cycle(ctx context.Context) error {
	hold, err := b.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	return hold.Release(ctx)
}

// run makes cycles until the time is over, and one at least.
func (b *benchRunner) run(ctx context.Context, until time.Time, cycles *atomic.Int64) error {
	before := b.session.Stats()
	for {
		start := time.Now()
		if err := b.cycle(ctx); err != nil {
			return err
		}
		now := time.Now()
		b.times.add(now.Sub(start))
		cycles.Add(1)
		if !now.Before(until) {
			after := b.session.Stats()
			b.requests = after.Requests - before.Requests - (after.Heartbeats - before.Heartbeats)
			return nil
		}
	}
}

// failIfStuck fails a measurement in which no lock is granted any more, until ctx ends. A session whose servers have all
// gone would wait for them for ever.
func failIfStuck(ctx context.Context, fail context.CancelCauseFunc, cycles *atomic.Int64) {
	tick := time.NewTicker(benchStuckLimit)
	defer tick.Stop()
	for last := int64(-1); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := cycles.Load()
		if now == last {
			fail(fmt.Errorf("no client has got a lock for %v", benchStuckLimit))
			return
		}
		last = now
	}
}

// showBench shows the progress at a terminal, until ctx ends.
func showBench(ctx context.Context, begin time.Time, duration time.Duration, cycles *atomic.Int64) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return
	}
	defer fmt.Fprint(os.Stderr, "\r\x1b[K")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := cycles.Load()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := cycles.Load()
		fmt.Fprintf(os.Stderr, "\rlockkeeper: %v of %v, %d cycles/s\x1b[K", time.Since(begin).Truncate(time.Second), duration, now-last)
		last = now
	}
}

// removeLocks deletes the directories, as far as that is possible: they are empty, and where the server
// has containers it would delete them in time.
func removeLocks(ctx context.Context, s *client.Session, dir string, locks int) {
	p := s.Pipeline()
	for i := range locks {
		p.Delete(zk.Join(dir, strconv.Itoa(i)), -1)
	}
	p.Delete(dir, -1)
	last := p.Delete(benchPath, -1) // refused if another bench is at it
	p.Send(ctx)
	last.Wait(ctx)
}

// A histogram counts times in buckets whose width is less than a hundredth of what they hold.
type histogram struct {
	counts [(64 - benchFineBits) << benchFineBits]int64
	count  int64
	max    time.Duration
}

// benchFineBits is how many bits of a time behind the first count.
const benchFineBits = 7

func (h *histogram) add(d time.Duration) {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-1-benchFineBits, 0)
	h.counts[shift<<benchFineBits+int(v>>shift)]++
	h.count++
	h.max = max(h.max, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.max = max(h.max, other.max)
}

// quantile returns the time that a share q of the times does not exceed, too long by less than one in a
// hundred.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(h.count)))
	for i, n := range h.counts {
		rank -= n
		if n > 0 && rank <= 0 {
			shift := max(i>>benchFineBits-1, 0)
			end := uint64(i-shift<<benchFineBits+1)<<shift - 1
			return min(time.Duration(end), h.max)
		}
	}
	return 0
}
