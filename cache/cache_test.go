package cache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A world is a server, a session that writes, and a keeper for the cache, whose connections a proxy can break.
type world struct {
	t      *testing.T
	srv    *zktest.Server
	writer *client.Session
	proxy  *faultproxy.Proxy
	k      *client.Keeper

	refusal atomic.Int32 // see withoutAddWatch
}

// newWorld makes a world whose server refuses persistent watches with an error, or has them.
func newWorld(t *testing.T, chroot string, refusal zk.Code) *world {
	t.Helper()
	w := &world{t: t, srv: zktest.New(t, zktest.Options{})}
	w.writer = w.srv.Session(t, "writer")
	w.refusal.Store(int32(refusal))
	w.proxy = faultproxy.New(withoutAddWatch(w.srv.Link("reader").Dial, &w.refusal))
	t.Cleanup(w.proxy.Close)
	var err error
	w.k, err = client.Keep(t.Context(), zktest.Servers+chroot, client.Options{Dial: w.proxy.Dial})
	must(t, err)
	t.Cleanup(func() { w.k.Close(context.Background()) })
	return w
}

func (w *world) put(path, data string) {
	w.t.Helper()
	_, err := w.writer.Put(w.t.Context(), path, []byte(data), nil)
	must(w.t, err)
}

func (w *world) delete(path string) {
	w.t.Helper()
	must(w.t, w.writer.DeleteAll(w.t.Context(), path))
}

func (w *world) open(path string, opt cache.Options) *cache.Cache {
	w.t.Helper()
	c, err := cache.Open(w.t.Context(), w.k, path, opt)
	must(w.t, err)
	w.t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// text writes a view down.
func text(v cache.View) string {
	var b strings.Builder
	for n := range v.All() {
		fmt.Fprintf(&b, "%s=%s ", n.Path, n.Data)
	}
	return strings.TrimSpace(b.String())
}

// tree writes the server's tree down in the same way, in the order of a cache.
func (w *world) tree(dir string) string {
	nodes := w.srv.Tree(dir)
	slices.SortFunc(nodes, func(a, b zktest.Node) int {
		return strings.Compare(strings.ReplaceAll(a.Path, "/", "\x00"), strings.ReplaceAll(b.Path, "/", "\x00"))
	})
	var words []string
	for _, n := range nodes {
		words = append(words, n.Path+"="+string(n.Data))
	}
	return strings.Join(words, " ")
}

// modes runs f with a server that has persistent watches, and with one that refuses them.
func modes(t *testing.T, chroot string, f func(t *testing.T, w *world)) {
	for mode, refusal := range map[string]zk.Code{"persistent": zk.OK, "one-shot": zk.ErrUnimplemented} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f(t, newWorld(t, chroot, refusal))
			})
		})
	}
}

// A server with WatchManagerOptimized answers a persistent watch as if it could not decode the request: the first one that it is asked
// for, or those of a session that comes from a server without that option, which are registered again.
func TestAServerWithWatchManagerOptimized(t *testing.T) {
	for _, before := range []zk.Code{zk.ErrMarshalling, zk.OK} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "", before)
			w.put("/r/a", "1")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := cache.Open(ctx, w.k, "/r", cache.Options{})
			must(t, err)
			defer c.Close(context.Background())
			w.refusal.Store(int32(zk.ErrMarshalling))
			w.proxy.CutAll()
			time.Sleep(time.Minute)
			w.put("/r/a", "2")
			w.put("/r/b", "3")
			synctest.Wait()
			want(t, "view", text(c.View()), "/r= /r/a=2 /r/b=3")
			s, err := w.k.Session(ctx)
			must(t, err)
			if n := s.Stats().Connections; n > 3 {
				t.Errorf("%d connections, want at most 3", n)
			}
		})
	}
}

// log collects the changes of a cache until its test ends.
type log struct {
	lines []string
	state map[string]string // as the changes say
	wrong []string
}

func (w *world) follow(c *cache.Cache) *log {
	l := &log{state: map[string]string{}}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(w.t.Context())
	go func() {
		defer close(done)
		for ch, err := range c.Changes(ctx) {
			if err != nil {
				return
			}
			l.add(ch)
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
		for _, what := range l.wrong {
			w.t.Error(what)
		}
	})
	return l
}

func (l *log) add(ch cache.Change) {
	path, data := ch.Node.Path, string(ch.Node.Data)
	l.lines = append(l.lines, strings.TrimSpace(fmt.Sprintf("%v %s %s", ch.Kind, path, data)))
	old, known := l.state[path]
	wrong := false
	switch ch.Kind {
	case cache.Created:
		_, parent := l.state[zk.Parent(path)]
		wrong = known || len(l.state) > 0 && !parent && len(path) > len("/r")
		l.state[path] = data
	case cache.Changed:
		wrong = !known || string(ch.Old.Data) != old || ch.Node.Stat.Mzxid <= ch.Old.Stat.Mzxid
		l.state[path] = data
	case cache.Deleted:
		wrong = !known
		delete(l.state, path)
		for other := range l.state {
			wrong = wrong || strings.HasPrefix(other, path+"/")
		}
	}
	if wrong {
		l.wrong = append(l.wrong, fmt.Sprintf("%v %s: the reader had %q, %v; the changes: %v", ch.Kind, path, old, known, l.lines))
	}
}

// take returns the lines since the last take, once everything has settled.
func (l *log) take() string {
	synctest.Wait()
	defer func() { l.lines = nil }()
	return strings.Join(l.lines, "; ")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

func TestWhatThereIsAndWhatChanges(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r", "root")
		w.put("/r/b", "1")
		w.put("/r/a/x", "2")
		w.put("/s", "beside")
		c := w.open("/r", cache.Options{})
		want(t, "view", text(c.View()), "/r=root /r/a= /r/a/x=2 /r/b=1")
		l := w.follow(c)
		want(t, "beginning", l.take(), "created /r root; created /r/b 1; created /r/a; created /r/a/x 2")
		old := c.View()
		w.put("/r/b", "3")
		want(t, "set", l.take(), "changed /r/b 3")
		w.put("/r/a/x/y", "4")
		want(t, "created", l.take(), "created /r/a/x/y 4")
		w.delete("/r/a")
		want(t, "deleted", l.take(), "deleted /r/a/x/y 4; deleted /r/a/x 2; deleted /r/a")
		w.put("/s", "again")
		want(t, "beside", l.take(), "")
		want(t, "old view", text(old), "/r=root /r/a= /r/a/x=2 /r/b=1")
		want(t, "view", text(c.View()), "/r=root /r/b=3")
		var names []string
		for n := range old.Children("/r") {
			names = append(names, n.Path)
		}
		want(t, "children", fmt.Sprint(names), "[/r/a /r/b]")
		if n, ok := c.Get("/r/b"); !ok || n.Stat.Version != 1 || string(n.Data) != "3" {
			t.Errorf("Get: %+v, %v", n, ok)
		}
		if _, ok := c.Get("/r/a"); ok {
			t.Error("Get finds what is deleted")
		}
		if v := c.View(); v.Len() != 2 || v.Bytes() != int64(len("/r/r/broot3")) {
			t.Errorf("%d znodes, %d bytes", v.Len(), v.Bytes())
		}
		must(t, c.Close(t.Context()))
		<-c.Done()
		if !errors.Is(c.Err(), zk.ErrClosed) {
			t.Errorf("Err after Close: %v", c.Err())
		}
	})
}

func TestARootThatComesAndGoes(t *testing.T) {
	modes(t, "/ch", func(t *testing.T, w *world) {
		c := w.open("/r", cache.Options{})
		l := w.follow(c)
		want(t, "nothing", l.take(), "")
		w.put("/ch/r/a", "1") // the chroot was missing, too
		synctest.Wait()
		want(t, "created", text(c.View()), "/r= /r/a=1")
		l.take()
		w.delete("/ch/r")
		want(t, "deleted", l.take(), "deleted /r/a 1; deleted /r")
		w.put("/ch/r/b", "2")
		synctest.Wait()
		want(t, "created again", text(c.View()), "/r= /r/b=2")
		// Deleted and created again before the cache can look.
		l.take()
		w.proxy.SetFlows(faultproxy.Stall)
		w.delete("/ch/r")
		w.put("/ch/r/b", "3")
		w.proxy.SetFlows(faultproxy.Pass)
		time.Sleep(time.Second)
		got := l.take()
		want(t, "view", text(c.View()), "/r= /r/b=3")
		if !strings.Contains(got, "deleted /r/b 2") || !strings.Contains(got, "created /r/b 3") {
			t.Errorf("deleted and created again: %s", got)
		}
	})
}

func TestOneZnode(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r/a", "1")
		c := w.open("/r", cache.Options{Single: true})
		l := w.follow(c)
		want(t, "beginning", l.take(), "created /r")
		w.put("/r/b", "2")
		want(t, "child", l.take(), "")
		w.put("/r", "x")
		want(t, "set", l.take(), "changed /r x")
		w.delete("/r")
		want(t, "deleted", l.take(), "deleted /r x")
	})
}

// After a lost connection or session, the reader is told, and then what is different.
func TestGaps(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r/a", "1")
		w.put("/r/b", "1")
		c := w.open("/r", cache.Options{})
		l := w.follow(c)
		l.take()
		for _, gap := range []string{"cut", "expired"} {
			w.proxy.Refuse(true)
			w.proxy.CutAll()
			synctest.Wait()
			if st, _ := c.State(); st.Stale == nil {
				t.Errorf("%s: the state does not say that there is no connection", gap)
			}
			w.put("/r/a", gap)
			w.delete("/r/b")
			w.put("/r/c", "new")
			if gap == "expired" {
				w.srv.Link("reader").Expire()
			}
			w.proxy.Refuse(false)
			time.Sleep(time.Minute)
			got := l.take()
			st, _ := c.State()
			if st.Stale != nil {
				t.Errorf("%s: still stale: %v", gap, st.Stale)
			}
			want(t, gap, text(c.View()), w.tree("/r"))
			if st.Rereads > 0 && !strings.HasPrefix(got, "reread; deleted /r/b 1") {
				t.Errorf("%s: changes: %s", gap, got)
			}
			if gap == "expired" && st.Rereads == 0 {
				t.Error("the session is another one, and nothing was read again")
			}
			w.put("/r/b", "1")
			w.delete("/r/c")
			l.take()
		}
	})
}

// A hook is a slog.Handler that calls itself when a line with a message comes.
type hook struct {
	message string
	f       func()
}

func (h hook) Enabled(context.Context, slog.Level) bool { return true }
func (h hook) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h hook) WithGroup(string) slog.Handler            { return h }
func (h hook) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.f()
	}
	return nil
}

// A connection that is lost after the last answer, and before the view is published, makes the view stale.
func TestALossBeforePublishing(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r/a", "1")
		var lose atomic.Bool
		lose.Store(true)
		c := w.open("/r", cache.Options{Logger: slog.New(hook{"cache: read again after a gap", func() {
			if lose.Load() {
				w.proxy.Refuse(true)
				w.proxy.CutAll()
				time.Sleep(time.Millisecond) // the others notice
			}
		}})})
		w.srv.Link("reader").Expire()
		time.Sleep(time.Minute)
		w.put("/r/a", "2")
		st, _ := c.State()
		if st.Rereads != 1 || st.Stale == nil {
			t.Errorf("without a connection, after %d rereads: stale is %v", st.Rereads, st.Stale)
		}
		want(t, "view", text(st.View), "/r= /r/a=1")
		lose.Store(false)
		w.proxy.Refuse(false)
		time.Sleep(time.Minute)
		st, _ = c.State()
		if st.Stale != nil {
			t.Errorf("with a connection: still stale: %v", st.Stale)
		}
		want(t, "view", text(st.View), "/r= /r/a=2")
	})
}

// From the loss of a session until everything has been read again, the view is stale.
func TestStaleDuringAReread(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r/a", "1")
		c := w.open("/r", cache.Options{})
		w.proxy.Hold(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Path: "/r/a"}, 5*time.Second)
		w.srv.Link("reader").Expire()
		synctest.Wait()
		w.put("/r/a", "2")
		var stale time.Duration
		for range 600 {
			st, _ := c.State()
			if text(st.View) == "/r= /r/a=2" {
				break
			}
			if st.Stale == nil {
				t.Fatalf("not stale after %v, with %s", stale, text(st.View))
			}
			if why := st.Stale.Error(); stale == 2*time.Second && why != "events may have been missed, and everything is read again" {
				t.Errorf("while everything is read again, stale because of: %s", why)
			}
			time.Sleep(100 * time.Millisecond)
			stale += 100 * time.Millisecond
		}
		st, _ := c.State()
		if stale < 5*time.Second || st.Stale != nil {
			t.Errorf("stale for %v, then %v", stale, st.Stale)
		}
		want(t, "view", text(st.View), "/r= /r/a=2")
	})
}

// While everything is read again on a new connection, the end of the one before is not the reason any more.
func TestStaleDuringARereadAfterACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "", zk.OK)
		w.put("/r/a", "1")
		c := w.open("/r", cache.Options{})
		w.proxy.Hold(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Path: "/r/a"}, 5*time.Second)
		w.proxy.CutAll()
		time.Sleep(3 * time.Second)
		st, _ := c.State()
		want(t, "reason", fmt.Sprint(st.Stale), "events may have been missed, and everything is read again")
		time.Sleep(time.Minute)
		st, _ = c.State()
		want(t, "reason in the end", fmt.Sprint(st.Stale), "<nil>")
	})
}

// A wait that ends with its context says what has kept the cache from reading.
func TestWhyNothingIsRead(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r/a", "1")
		c := w.open("/r", cache.Options{})
		open := func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := cache.Open(ctx, w.k, "/r", cache.Options{})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Open: %v", err)
			}
			return fmt.Sprint(err)
		}
		hold := w.proxy.Hold(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Path: "/r/a"}, 4*time.Second)
		want(t, "without an answer", open(), "cache /r: context deadline exceeded (not all has been read yet)")
		hold.Remove()
		time.Sleep(time.Minute)
		w.proxy.Refuse(true)
		w.proxy.CutAll()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.WaitFor(ctx, func(cache.View) bool { return false })
		for _, got := range []string{open(), fmt.Sprint(err)} {
			if !strings.HasPrefix(got, "cache /r: context deadline exceeded (") || !strings.Contains(got, "refused") {
				t.Errorf("without a server: %s", got)
			}
		}
		w.proxy.Refuse(false)
	})
}

// What is larger than the session takes stays so: the cache does not try again without end.
func TestAZnodeThatIsTooLargeForTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "", zk.OK)
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: w.srv.Dial, ReplyBytesMax: 2000})
		must(t, err)
		defer k.Close(context.Background())
		w.put("/r/a", "1")
		c, err := cache.Open(t.Context(), k, "/r", cache.Options{})
		must(t, err)
		defer c.Close(context.Background())
		w.put("/r/a", strings.Repeat("x", 3000))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = cache.Open(ctx, k, "/r", cache.Options{})
		synctest.Wait() // the open cache may hear of it after the new one
		for _, err := range []error{c.Err(), err} {
			var size *client.SizeError
			if !errors.As(err, &size) || !strings.HasPrefix(err.Error(), "cache /r: get /r/a: ") {
				t.Errorf("got %v, want that /r/a is too large", err)
			}
		}
	})
}

func TestHiddenParts(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r/open", "1")
		w.put("/r/shut/in", "2")
		_, err := w.writer.SetACL(t.Context(), "/r/shut", zk.DigestACL(zk.PermAll, "u", "p"), zk.AnyVersion)
		must(t, err)
		c := w.open("/r", cache.Options{})
		got := text(c.View())
		if !strings.Contains(got, "/r/open=1") || strings.Contains(got, "/r/shut=") {
			t.Errorf("view: %s", got)
		}
		w.put("/r/open", "3")
		synctest.Wait()
		if n, _ := c.Get("/r/open"); string(n.Data) != "3" {
			t.Errorf("after a change beside: %s", n.Data)
		}
		_, err = w.writer.Create(t.Context(), "/hidden", nil, zk.Persistent, zk.DigestACL(zk.PermAll, "u", "p"))
		must(t, err)
		_, err = cache.Open(t.Context(), w.k, "/hidden", cache.Options{})
		if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "/hidden") {
			t.Errorf("a hidden root: %v", err)
		}
	})
}

// What is below a znode that may not be read is left out too, whatever event tells of it, and comes with that znode.
func TestBelowAHiddenZnode(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r/shut/in/deep", "1")
		must(t, w.writer.AddAuth(t.Context(), client.Auth{Scheme: "digest", Credential: []byte("u:p")}))
		acl := func(list []zk.ACL) {
			t.Helper()
			_, err := w.writer.SetACL(t.Context(), "/r/shut", list, zk.AnyVersion)
			must(t, err)
		}
		hidden := zk.DigestACL(zk.PermAll, "u", "p")
		acl(hidden)
		c := w.open("/r", cache.Options{})
		l := w.follow(c)
		l.take()
		w.put("/r/shut/in", "2")
		w.put("/r/shut/in/new", "3")
		want(t, "below a hidden znode", l.take(), "")
		w.srv.Link("reader").Cut()
		time.Sleep(time.Minute)
		if got := l.take(); strings.Contains(got, "/r/shut") {
			t.Errorf("after a reread: %s", got)
		}
		acl(zk.OpenACL())
		w.delete("/r/shut/in/new")
		w.put("/r/shut", "4")
		w.put("/r", "once more, for one-shot watches")
		w.put("/r/beside", "5")
		synctest.Wait()
		want(t, "no longer hidden", text(c.View()), w.tree("/r"))
		w.proxy.SetFlow(faultproxy.ToServer, faultproxy.Stall)
		w.put("/r/shut", "6") // its event is sent before it is hidden, and it is read afterwards
		acl(hidden)
		synctest.Wait()
		w.proxy.SetFlow(faultproxy.ToServer, faultproxy.Pass)
		w.put("/r/shut/in/deep", "7")
		synctest.Wait()
		want(t, "hidden again", text(c.View()), "/r=once more, for one-shot watches /r/beside=5")
	})
}

func TestLimits(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		w.put("/r/a", "1")
		w.put("/r/b", "1")
		var limit *cache.LimitError
		_, err := cache.Open(t.Context(), w.k, "/r", cache.Options{NodesMax: 2})
		if !errors.As(err, &limit) || !errors.Is(err, cache.ErrLimit) || limit.What != "znodes" || err.Error() != "cache /r: more than 2 znodes (raise the limit in the options, or cache a smaller part)" {
			t.Errorf("too many znodes: %v", err)
		}
		_, err = cache.Open(t.Context(), w.k, "/r", cache.Options{BytesMax: 11})
		if !errors.As(err, &limit) || limit.What != "bytes" {
			t.Errorf("too many bytes: %v", err)
		}
		byNodes := w.open("/r", cache.Options{NodesMax: 3})
		byBytes := w.open("/r", cache.Options{BytesMax: 12})
		w.put("/r/b", "12")
		<-byBytes.Done()
		if !errors.As(byBytes.Err(), &limit) || limit.What != "bytes" {
			t.Errorf("grown beyond the bytes: %v", byBytes.Err())
		}
		w.put("/r/c", "")
		<-byNodes.Done()
		if !errors.As(byNodes.Err(), &limit) || limit.What != "znodes" {
			t.Errorf("grown beyond the znodes: %v", byNodes.Err())
		}
		for _, err := range byNodes.Changes(t.Context()) {
			if err != nil && !errors.As(err, &limit) {
				t.Errorf("Changes: %v", err)
			}
		}
		if _, err := byNodes.WaitFor(t.Context(), func(cache.View) bool { return false }); !errors.As(err, &limit) {
			t.Errorf("WaitFor: %v", err)
		}
		_, err = cache.Open(t.Context(), w.k, "/r", cache.Options{NodesMax: -1})
		if err == nil {
			t.Error("a negative limit was accepted")
		}
		_, err = cache.Open(t.Context(), w.k, "r", cache.Options{})
		if !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("a bad path: %v", err)
		}
	})
}

// A part that is too large is noticed before all of it has been read.
func TestLimitsBoundWhatIsRead(t *testing.T) {
	modes(t, "", func(t *testing.T, w *world) {
		fill(t, w.writer, "/wide", 2000, make([]byte, 1000))
		for i := range 40 {
			fill(t, w.writer, fmt.Sprintf("/deep/%d", i), 50, nil)
		}
		for _, c := range []struct {
			path, what string
			opt        cache.Options
			read       int
		}{
			{"/wide", "bytes", cache.Options{BytesMax: 10_000}, 2*batch + 1},
			{"/wide", "znodes", cache.Options{NodesMax: 1000}, 1},
			{"/deep", "znodes", cache.Options{NodesMax: 500}, 41},
			{"/deep", "bytes", cache.Options{BytesMax: 5000}, 41},
		} {
			mark := w.proxy.Mark()
			_, err := cache.Open(t.Context(), w.k, c.path, c.opt)
			var limit *cache.LimitError
			if !errors.As(err, &limit) || limit.What != c.what {
				t.Errorf("%s, %+v: %v", c.path, c.opt, err)
			}
			if n := len(w.proxy.Since(mark).Asked(wire.OpGetData)); n > c.read {
				t.Errorf("%s, %+v: %d znodes were read, want %d at most", c.path, c.opt, n, c.read)
			}
		}
		// What events tell of is bounded as well.
		fill(t, w.writer, "/grows", 1000, nil)
		c := w.open("/grows", cache.Options{BytesMax: 50_000})
		mark := w.proxy.Mark()
		w.proxy.SetFlow(faultproxy.ToServer, faultproxy.Stall)
		w.put("/grows", "the cache waits for this one")
		synctest.Wait()
		var ops []client.Op
		for n := range 1000 {
			ops = append(ops, client.OpSet(fmt.Sprintf("/grows/n%06d", n), make([]byte, 500), zk.AnyVersion))
		}
		_, err := w.writer.Multi(t.Context(), ops...)
		must(t, err)
		synctest.Wait()
		w.proxy.SetFlow(faultproxy.ToServer, faultproxy.Pass)
		<-c.Done()
		var limit *cache.LimitError
		if n := len(w.proxy.Since(mark).Asked(wire.OpGetData)); !errors.As(c.Err(), &limit) || n > 3*batch {
			t.Errorf("%d znodes were read, then %v", n, c.Err())
		}
	})
}

// batch is how many requests a cache sends together.
const batch = 256

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "", zk.OK)
		c := w.open("/r", cache.Options{})
		go func() {
			time.Sleep(time.Minute)
			w.put("/r/a", "1")
		}()
		began := time.Now()
		v, err := c.WaitFor(t.Context(), func(v cache.View) bool { _, ok := v.Get("/r/a"); return ok })
		if err != nil || time.Since(began) != time.Minute || v.Len() != 2 {
			t.Errorf("%d znodes after %v, %v", v.Len(), time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.WaitFor(ctx, func(cache.View) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitFor: %v", err)
		}
		must(t, w.k.Close(t.Context()))
		<-c.Done()
		if !errors.Is(c.Err(), zk.ErrClosed) {
			t.Errorf("after the keeper's end: %v", c.Err())
		}
	})
}

// Random writes, cuts and expiries, with answers lost: in the end the cache has what the server has, a reader of changes
// comes to the same, and no znode went back.
func TestAnythingGoes(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			modes(t, "", func(t *testing.T, w *world) {
				rng := rand.New(rand.NewPCG(seed, 17))
				c := w.open("/r", cache.Options{})
				l := w.follow(c)
				for i := range 300 {
					path := "/r" + []string{"", "/a", "/a/x", "/a/y", "/b", "/b/x"}[rng.IntN(6)]
					switch n := rng.IntN(40); {
					case n < 24:
						w.put(path, fmt.Sprint(i))
					case n < 34:
						w.delete(path)
					case n < 36:
						time.Sleep(time.Duration(rng.IntN(5)) * time.Second)
					case n < 37:
						w.proxy.CutAll()
					case n < 38:
						w.srv.Link("reader").Expire()
					case n < 39:
						w.proxy.CutAfter(faultproxy.Match{Ops: []wire.Op{wire.OpGetData, wire.OpAddWatch}})
					default:
						synctest.Wait()
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				want(t, "view", text(c.View()), w.tree("/r"))
				if len(l.state) != c.View().Len() {
					t.Errorf("the changes come to %v, the view is %s", l.state, text(c.View()))
				}
				for n := range c.View().All() {
					want(t, n.Path+" from changes", l.state[n.Path], string(n.Data))
				}
			})
		})
	}
}

// A reader that does not keep up is told that it has missed something, and then the differences.
func TestASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "", zk.OK)
		w.put("/r", "0")
		c := w.open("/r", cache.Options{})
		n, rereads := 0, 0
		for ch, err := range c.Changes(t.Context()) {
			must(t, err)
			n++
			if n == 1 {
				for i := range 1000 {
					w.put("/r", fmt.Sprint(i))
				}
				for i := range 9000 { // each is a change of its own, and more than the log keeps
					w.put("/r", fmt.Sprint("x", i))
					synctest.Wait()
				}
			}
			if ch.Kind == cache.Reread {
				rereads++
			}
			if string(ch.Node.Data) == "x8999" {
				break
			}
		}
		if n != 3 || rereads != 1 {
			t.Errorf("%d changes, %d rereads; want created, reread, changed", n, rereads)
		}
	})
}

func TestAHundredThousandChildren(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "writer")
	fill(t, s, "/r", 100_000, nil)
	k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Dial})
	must(t, err)
	defer k.Close(t.Context())
	c, err := cache.Open(t.Context(), k, "/r", cache.Options{})
	must(t, err)
	defer c.Close(t.Context())
	if c.View().Len() != 100_001 {
		t.Fatalf("%d znodes", c.View().Len())
	}
	_, err = s.Set(t.Context(), "/r/n050000", []byte("new"), zk.AnyVersion)
	must(t, err)
	_, err = c.WaitFor(t.Context(), func(v cache.View) bool { n, _ := v.Get("/r/n050000"); return string(n.Data) == "new" })
	must(t, err)
}

// fill creates n children below dir.
func fill(t testing.TB, s *client.Session, dir string, n int, data []byte) {
	t.Helper()
	must(t, s.EnsurePath(t.Context(), dir, nil))
	for i := 0; i < n; i += 500 {
		var ops []client.Op
		for j := i; j < min(n, i+500); j++ {
			ops = append(ops, client.OpCreate(fmt.Sprintf("%s/n%06d", dir, j), data, zk.Persistent, nil))
		}
		_, err := s.Multi(t.Context(), ops...)
		must(t, err)
	}
}

// Only where one-shot watches have lowered the limit is the server to blame for it.
func TestALimitIsThatOfTheOptions(t *testing.T) {
	err := &cache.LimitError{Path: "/r", What: "znodes", Limit: cache.OneShotNodesMax}
	if want := "cache /r: more than 20000 znodes (raise the limit in the options, or cache a smaller part)"; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
