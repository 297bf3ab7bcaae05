package partition_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/partition"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A judge sees that no item is worked on twice.
type judge struct {
	t  *testing.T
	mu sync.Mutex
	by map[string]string
	// moves counts how often each item was begun.
	moves map[string]int
}

func (j *judge) work(id string) partition.Work {
	return func(ctx context.Context, item string, hold *lock.Hold) error {
		j.mu.Lock()
		if by := j.by[item]; by != "" {
			j.t.Errorf("%s is worked on by %s and by %s", item, by, id)
		}
		j.by[item] = id
		j.moves[item]++
		j.mu.Unlock()
		<-ctx.Done()
		time.Sleep(100 * time.Millisecond) // the end of the work
		j.mu.Lock()
		j.by[item] = ""
		j.mu.Unlock()
		return ctx.Err()
	}
}

// shares returns how many items each member works on, as "a 3, b 4", and the sum.
func (j *judge) shares() (map[string]int, int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, sum := map[string]int{}, 0
	for _, id := range j.by {
		if id != "" {
			n[id]++
			sum++
		}
	}
	return n, sum
}

// begun returns how often each item was begun.
func (j *judge) begun() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.moves)
}

type world struct {
	t     *testing.T
	srv   *zktest.Server
	judge *judge
	items []string
	opt   partition.Options
}

func in(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, srv: zktest.New(t, zktest.Options{}), judge: &judge{t: t, by: map[string]string{}, moves: map[string]int{}}}
		for i := range 24 {
			w.items = append(w.items, fmt.Sprintf("item%02d", i))
		}
		f(w)
	})
}

func (w *world) join(id string) (*partition.Partition, *faultproxy.Proxy) {
	w.t.Helper()
	proxy := faultproxy.New(w.srv.Link(id).Dial)
	w.t.Cleanup(proxy.Close)
	k, err := client.Keep(w.t.Context(), zktest.Servers, client.Options{Dial: proxy.Dial})
	must(w.t, err)
	w.t.Cleanup(func() { k.Close(context.Background()) })
	p, err := partition.Join(w.t.Context(), k, "/p", id, w.items, w.judge.work(id), w.opt)
	must(w.t, err)
	w.t.Cleanup(func() { p.Close(context.Background()) })
	return p, proxy
}

func TestItemsAreSharedOut(t *testing.T) {
	for name, allocate := range map[string]func(items, members []string, member string) []string{"spread": partition.Spread, "slices": partition.Slices} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				w.opt.Allocate = allocate
				a, _ := w.join("a")
				time.Sleep(10 * time.Second)
				if n, sum := w.judge.shares(); sum != 24 || n["a"] != 24 {
					t.Errorf("alone: %v", n)
				}
				b, _ := w.join("b")
				c, _ := w.join("c")
				time.Sleep(10 * time.Second)
				if n, sum := w.judge.shares(); sum != 24 || n["a"] < 3 || n["b"] < 3 || n["c"] < 3 {
					t.Errorf("three: %v", n)
				}
				var all []string
				for _, p := range []*partition.Partition{a, b, c} {
					items, _ := p.Items()
					all = append(all, items...)
				}
				slices.Sort(all)
				if !slices.Equal(all, w.items) {
					t.Errorf("items: %v", all)
				}
				must(t, b.Close(w.t.Context()))
				if items, _ := b.Items(); len(items) > 0 {
					t.Errorf("after Close: %v", items)
				}
				time.Sleep(10 * time.Second)
				if n, sum := w.judge.shares(); sum != 24 || n["b"] > 0 {
					t.Errorf("two: %v", n)
				}
				if !errors.Is(b.Err(), zk.ErrClosed) {
					t.Errorf("Err: %v", b.Err())
				}
			})
		})
	}
}

// Members with the same id, as after a restart while the session of the last process goes on, leave no item unowned.
func TestMembersWithTheSameID(t *testing.T) {
	for name, allocate := range map[string]func(items, members []string, member string) []string{"spread": partition.Spread, "slices": partition.Slices} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				w.opt.Allocate = allocate
				first, _ := w.join("w")
				w.join("x")
				w.join("w")
				time.Sleep(10 * time.Second)
				if n, sum := w.judge.shares(); sum != 24 || n["w"] == 0 || n["x"] == 0 {
					t.Errorf("shares: %v", n)
				}
				must(t, first.Close(w.t.Context()))
				time.Sleep(10 * time.Second)
				if n, sum := w.judge.shares(); sum != 24 || n["w"] == 0 || n["x"] == 0 {
					t.Errorf("the stand-in has not taken over: %v", n)
				}
			})
		})
	}
}

// Only what has to move moves.
func TestWhatMoves(t *testing.T) {
	in(t, func(w *world) {
		w.join("a")
		w.join("b")
		time.Sleep(10 * time.Second)
		before := w.judge.begun()
		c, _ := w.join("c")
		time.Sleep(10 * time.Second)
		own, _ := c.Items()
		for item, n := range w.judge.begun() {
			if moved := n > before[item]; moved != slices.Contains(own, item) {
				t.Errorf("%s moved: %v, the new member has it: %v", item, moved, !moved)
			}
		}
		if len(own) == 0 || len(own) == len(w.items) {
			t.Errorf("the new member has %d items", len(own))
		}
	})
}

// Whatever is lost or expires, no item is worked on twice, and in the end each is worked on.
func TestFaults(t *testing.T) {
	for i := range 24 {
		in(t, func(w *world) {
			_, p := w.join("a")
			m := faultproxy.Match{Ops: []wire.Op{wire.OpCreate2, wire.OpDelete, wire.OpMulti, wire.OpGetChildren2, wire.OpGetData, wire.OpExists}, Skip: i * 3, Times: 3}
			switch i % 3 {
			case 0:
				p.CutBefore(m)
			case 1:
				p.CutAfter(m)
			default:
				p.Before(m, func(faultproxy.Request) { w.srv.Link("a").Expire() })
			}
			w.join("b")
			time.Sleep(3 * time.Second)
			w.srv.Link("b").Expire()
			time.Sleep(2 * time.Second)
			w.srv.Link("a").Cut()
			time.Sleep(time.Minute)
			if n, sum := w.judge.shares(); sum != 24 || n["a"] == 0 || n["b"] == 0 {
				t.Errorf("fault %d: %v", i, n)
			}
		})
	}
}

// Work that does not return when its session has ended keeps its own item from going on, and no other. It is not called
// beside itself.
func TestWorkThatDoesNotReturn(t *testing.T) {
	in(t, func(w *world) {
		k, err := client.Keep(w.t.Context(), zktest.Servers, client.Options{Dial: w.srv.Link("a").Dial})
		must(t, err)
		defer k.Close(context.Background())
		stuck, judged := make(chan struct{}), w.judge.work("a")
		work := func(ctx context.Context, item string, hold *lock.Hold) error {
			err := judged(ctx, item, hold)
			if item == "item07" {
				<-stuck
			}
			return err
		}
		p, err := partition.Join(w.t.Context(), k, "/p", "a", w.items, work, w.opt)
		must(t, err)
		for expiries := range 3 {
			time.Sleep(10 * time.Second)
			for item, n := range w.judge.begun() {
				if want := 1 + expiries; n != want && item != "item07" || n != 1 && item == "item07" {
					t.Errorf("after %d expiries the work on %s was begun %d times", expiries, item, n)
				}
			}
			w.srv.Link("a").Expire()
		}
		close(stuck)
		time.Sleep(10 * time.Second)
		if n, sum := w.judge.shares(); sum != 24 || w.judge.begun()["item07"] != 2 {
			t.Errorf("the work has returned: %v, begun %v", n, w.judge.begun())
		}
		must(t, p.Close(w.t.Context()))
		if n, sum := w.judge.shares(); sum != 0 {
			t.Errorf("after Close: %v", n)
		}
	})
}

// An item whose work fails is let go, and tried again after a pause. One whose work returns nil is kept.
func TestWorkThatFails(t *testing.T) {
	in(t, func(w *world) {
		var lines strings.Builder
		w.opt.Logger = slog.New(slog.NewTextHandler(&lines, nil))
		k, err := client.Keep(w.t.Context(), zktest.Servers, client.Options{Dial: w.srv.Link("a").Dial})
		must(t, err)
		defer k.Close(context.Background())
		var failing atomic.Bool
		failing.Store(true)
		var failed, kept atomic.Int32
		work := func(ctx context.Context, item string, _ *lock.Hold) error {
			if item == "kept" {
				kept.Add(1)
				return nil
			}
			if failing.Load() {
				failed.Add(1)
				return errors.New("the database is down")
			}
			<-ctx.Done()
			return errors.New("not flushed")
		}
		p, err := partition.Join(w.t.Context(), k, "/p", "a", []string{"item", "kept"}, work, w.opt)
		must(t, err)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if n := failed.Load(); n != 10 || kept.Load() != 1 {
			t.Errorf("in 9.5 s after the members had settled, the work failed %d times, want 10; that of the other was called %d times", n, kept.Load())
		}
		if items, _ := p.Items(); fmt.Sprint(items) != "[kept]" {
			t.Errorf("in the pause: %v", items)
		}
		if tree := w.srv.Tree("/p/locks/item").String(); strings.Contains(tree, "/p/locks/item/") {
			t.Errorf("the lock was not released:\n%s", tree)
		}
		failing.Store(false)
		time.Sleep(time.Second)
		if items, _ := p.Items(); fmt.Sprint(items) != "[item kept]" {
			t.Errorf("the work does not fail any more: %v", items)
		}
		must(t, p.Close(w.t.Context()))
		for _, want := range []string{`item=item pause=1s cause="work: the database is down"`, `has ended with an error" path=/p item=item cause="not flushed"`} {
			if !strings.Contains(lines.String(), want) {
				t.Errorf("the log has no %s:\n%s", want, lines.String())
			}
		}
	})
}

// Close whose context ends before some work has returned leaves, and others get the items whose work has.
func TestCloseDoesNotWaitForEver(t *testing.T) {
	in(t, func(w *world) {
		k, err := client.Keep(w.t.Context(), zktest.Servers, client.Options{Dial: w.srv.Link("a").Dial})
		must(t, err)
		defer k.Close(context.Background())
		stuck := make(chan struct{})
		work := func(ctx context.Context, item string, hold *lock.Hold) error {
			<-ctx.Done()
			if item == "item07" || item == "item11" {
				<-stuck
			}
			return nil
		}
		p, err := partition.Join(w.t.Context(), k, "/p", "a", w.items, work, w.opt)
		must(t, err)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err = p.Close(ctx)
		if want := "close partition /p: still working on item07, item11: context deadline exceeded"; err == nil || err.Error() != want || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %s", err, want)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Close took %v", took)
		}
		select {
		case <-p.Done():
			t.Error("Done although there is work")
		default:
		}
		w.join("b")
		time.Sleep(10 * time.Second)
		if n, sum := w.judge.shares(); sum != 22 {
			t.Errorf("while work is stuck: %v", n)
		}
		close(stuck)
		must(t, p.Close(w.t.Context()))
		time.Sleep(10 * time.Second)
		if n, sum := w.judge.shares(); sum != 24 {
			t.Errorf("after Close: %v", n)
		}
	})
}

// A member whose znode the server refuses to make again, under a new session, has ended, and says so.
func TestAMemberThatIsRefused(t *testing.T) {
	in(t, func(w *world) {
		p, _ := w.join("a")
		time.Sleep(10 * time.Second)
		_, err := w.srv.Session(w.t, "other").SetACL(w.t.Context(), "/p/party", zk.ReadOnlyACL(), zk.AnyVersion)
		must(t, err)
		w.srv.Link("a").Expire()
		time.Sleep(time.Minute)
		select {
		case <-p.Done():
		default:
			t.Error("it has not ended")
		}
		if err := p.Err(); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("Err: %v", err)
		}
		if n, sum := w.judge.shares(); sum != 0 {
			t.Errorf("it works on %v", n)
		}
	})
}

// The Keeper's Close, too, gives no item up before the work on it has returned.
func TestKeeperCloseWaitsForTheWork(t *testing.T) {
	in(t, func(w *world) {
		k, err := client.Keep(w.t.Context(), zktest.Servers, client.Options{Dial: w.srv.Link("a").Dial})
		must(t, err)
		a, err := partition.Join(w.t.Context(), k, "/p", "a", w.items, w.judge.work("a"), w.opt)
		must(t, err)
		w.join("b")
		time.Sleep(10 * time.Second)
		if n, sum := w.judge.shares(); sum != 24 || n["a"] == 0 {
			t.Fatalf("before: %v", n)
		}
		must(t, k.Close(w.t.Context()))
		if n, _ := w.judge.shares(); n["a"] != 0 {
			t.Errorf("after Close: %v", n)
		}
		a.Close(w.t.Context())
		if err := a.Err(); !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Err: %v", err)
		}
		time.Sleep(10 * time.Second)
		if n, _ := w.judge.shares(); n["b"] != 24 {
			t.Errorf("later: %v", n)
		}
	})
}

// A persistent znode among the members is no member: no process works on its share.
func TestAPersistentZnodeIsNoMember(t *testing.T) {
	in(t, func(w *world) {
		w.join("a")
		_, err := w.srv.Session(w.t, "admin").Create(w.t.Context(), "/p/party/left", nil, zk.Persistent, nil)
		must(t, err)
		time.Sleep(10 * time.Second)
		if n, sum := w.judge.shares(); sum != 24 {
			t.Errorf("shares: %v", n)
		}
	})
}

// Changes that are not the members' do not keep the items from being shared out.
func TestWhatIsBesideTheMembersChanges(t *testing.T) {
	in(t, func(w *world) {
		w.join("a")
		s := w.srv.Session(w.t, "other")
		for range 50 {
			_, err := s.Put(w.t.Context(), "/p/party/note", []byte("x"), nil)
			must(w.t, err)
			time.Sleep(200 * time.Millisecond)
		}
		if n, sum := w.judge.shares(); sum != 24 {
			t.Errorf("shares: %v", n)
		}
	})
}

// Allocate may do with the items that it is given what it likes.
func TestAllocateGetsACopyOfTheItems(t *testing.T) {
	in(t, func(w *world) {
		w.opt.Allocate = func(items, members []string, member string) []string {
			defer clear(items)
			return partition.Spread(items, members, member)
		}
		w.join("a")
		time.Sleep(10 * time.Second)
		w.join("b")
		time.Sleep(10 * time.Second)
		if n, sum := w.judge.shares(); sum != 24 || n["a"] == 0 || n["b"] == 0 {
			t.Errorf("shares: %v", n)
		}
	})
}

// A Partition that is closed while there is no session has ended with zk.ErrClosed.
func TestCloseWithoutASession(t *testing.T) {
	in(t, func(w *world) {
		p, proxy := w.join("a")
		proxy.After(faultproxy.Match{Ops: []wire.Op{wire.OpCreateSession}}, func(faultproxy.Request, faultproxy.Reply) { proxy.Refuse(true) })
		w.srv.Link("a").Expire()
		time.Sleep(time.Minute)
		p.Close(w.t.Context())
		if err := p.Err(); !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Err: %v", err)
		}
		proxy.Refuse(false)
	})
}

func TestWhatCannotBeSharedOut(t *testing.T) {
	in(t, func(w *world) {
		k, err := client.Keep(w.t.Context(), zktest.Servers, client.Options{Dial: w.srv.Dial})
		must(t, err)
		defer k.Close(context.Background())
		work := w.judge.work("x")
		for want, try := range map[string]func() error{
			`partition /p: item "a/b"`: func() error {
				_, err := partition.Join(context.Background(), k, "/p", "x", []string{"a/b"}, work, partition.Options{})
				return err
			},
			`partition /p: id ""`: func() error {
				_, err := partition.Join(context.Background(), k, "/p", "", nil, work, partition.Options{})
				return err
			},
			"partition /p: there is no function work": func() error {
				_, err := partition.Join(context.Background(), k, "/p", "x", nil, nil, partition.Options{})
				return err
			},
			"partition /p: lock /p/locks/items: option QueueMax: ": func() error {
				_, err := partition.Join(context.Background(), k, "/p", "x", nil, work, partition.Options{Lock: lock.Options{QueueMax: -1}})
				return err
			},
			"partition p: ": func() error {
				_, err := partition.Join(context.Background(), k, "p", "x", nil, work, partition.Options{})
				return err
			},
		} {
			if err := try(); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
}

func TestSlicesAreKazoos(t *testing.T) {
	items, members := []string{"1", "2", "3", "4", "5"}, []string{"a", "b"}
	if a, b := partition.Slices(items, members, "a"), partition.Slices(items, members, "b"); fmt.Sprint(a, b) != "[1 3 5] [2 4]" {
		t.Errorf("%v %v", a, b)
	}
	if none := partition.Slices(items, members, "c"); none != nil {
		t.Errorf("a stranger gets %v", none)
	}
}

// Work that ends its goroutine, as a test's Fatal does, is work that has failed: the item is tried again.
func TestWorkThatEndsItsGoroutine(t *testing.T) {
	in(t, func(w *world) {
		k, err := client.Keep(w.t.Context(), zktest.Servers, client.Options{Dial: w.srv.Link("a").Dial})
		must(t, err)
		defer k.Close(context.Background())
		var begun atomic.Int32
		p, err := partition.Join(w.t.Context(), k, "/p", "a", []string{"item"}, func(ctx context.Context, _ string, _ *lock.Hold) error {
			if begun.Add(1) == 1 {
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		}, w.opt)
		must(t, err)
		time.Sleep(10 * time.Second)
		if items, _ := p.Items(); begun.Load() != 2 || fmt.Sprint(items) != "[item]" {
			t.Errorf("begun %d times, working on %v", begun.Load(), items)
		}
		must(t, p.Close(w.t.Context()))
	})
}

// A nil context panics before anything has begun or ended.
func TestANilContextChangesNothing(t *testing.T) {
	in(t, func(w *world) {
		p, _ := w.join("a")
		k := w.srv.Keeper(w.t, "b")
		m, err := group.Join(w.t.Context(), k, "/g", "m", nil, group.JoinOptions{})
		must(t, err)
		time.Sleep(time.Minute)
		before := w.srv.Tree("/").String()
		var none context.Context
		for what, f := range map[string]func(){
			"Partition.Close": func() { p.Close(none) },
			"Member.Close":    func() { m.Close(none) },
			"group.Join":      func() { group.Join(none, k, "/g", "other", nil, group.JoinOptions{}) },
			"cache.Open":      func() { cache.Open(none, k, "/g", cache.Options{}) },
		} {
			if !panics(f) {
				t.Errorf("%s takes a nil context", what)
			}
		}
		time.Sleep(time.Minute)
		if after := w.srv.Tree("/").String(); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if items, _ := p.Items(); len(items) != len(w.items) {
			t.Errorf("works on %v", items)
		}
		must(t, m.Close(w.t.Context()))
	})
}

func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}
