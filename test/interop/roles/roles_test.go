package roles

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/counter"
	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/partition"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

// patience bounds every wait of a test.
const patience = time.Minute

const jars = "/usr/share/java/curator-x-discovery.jar:/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar:" +
	"/usr/share/java/jackson-core.jar:/usr/share/java/jackson-databind.jar:/usr/share/java/jackson-annotations.jar"

//go:embed testdata/roles.py
var kazooSource string

// classes compiles the Java program, once.
var classes = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lockkeeper-roles-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("/usr/bin/javac", "-d", dir, "-cp", jars, filepath.Join("testdata", "Roles.java")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("javac: %w\n%s", err, out)
	}
	return dir, nil
})

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// A peer is another make's client as a process.
type peer struct{ *proc.Talker }

// ask tells the peer something and returns its answer.
func (p peer) ask(format string, args ...any) string {
	p.Send(format, args...)
	return p.Expect("ok")
}

// setUp starts a server, a peer and a keeper.
func setUp(t *testing.T, kind string) (peer, *client.Keeper) {
	t.Helper()
	srv := apache.Start(t, apache.Options{})
	cmd := exec.Command("/usr/bin/python3", "-c", kazooSource, srv.Addr())
	if kind == "curator" {
		dir, err := classes()
		must(t, err)
		cmd = exec.Command("/usr/bin/java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", dir+":"+jars, "Roles", srv.Addr())
	}
	p := peer{proc.Talk(t, kind, cmd)}
	p.Expect("ready")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	k, err := client.Keep(ctx, srv.Addr(), client.Options{SessionTimeout: 15 * time.Second})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	return p, k
}

// each runs f with each kind of peer.
func each(t *testing.T, f func(t *testing.T, kind string, p peer, k *client.Keeper)) {
	for _, kind := range []string{"curator", "kazoo"} {
		t.Run(kind, func(t *testing.T) {
			p, k := setUp(t, kind)
			f(t, kind, p, k)
		})
	}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// Instances of Curator's x-discovery and ours are the same bytes, and each side finds the other's.
func TestDiscovery(t *testing.T) {
	p, k := setUp(t, "curator")
	ctx := limited(t)
	d, err := discovery.Open(ctx, k, "/services", discovery.Options{})
	must(t, err)
	defer d.Close(context.Background())
	p.ask("register orders java 10.0.0.1 8080")
	found, err := d.WaitFor(ctx, "orders", func(all []discovery.Instance) bool { return len(all) == 1 })
	must(t, err)
	want(t, "Curator's instance", found[0].URI(), "http://10.0.0.1:8080")
	s, err := k.Session(ctx)
	must(t, err)
	theirs, _, err := s.Get(ctx, "/services/orders/java")
	must(t, err)
	want(t, "bytes", string(found[0].Encode()), string(theirs))

	r, err := discovery.Register(ctx, k, "/services", discovery.Instance{Name: "orders", ID: "go", Address: "10.0.0.2", SSLPort: 443, Port: 444, URISpec: discovery.HTTPSpec()}, discovery.RegisterOptions{})
	must(t, err)
	want(t, "Curator finds", p.ask("instances orders"), "go=https://10.0.0.2:444 java=http://10.0.0.1:8080")
	must(t, r.Close(ctx))
	want(t, "Curator finds", p.ask("instances orders"), "java=http://10.0.0.1:8080")
	p.ask("unregister java")
	_, err = d.WaitFor(ctx, "orders", func(all []discovery.Instance) bool { return len(all) == 0 })
	must(t, err)
}

func TestGroup(t *testing.T) {
	each(t, func(t *testing.T, kind string, p peer, k *client.Keeper) {
		ctx := limited(t)
		g, err := group.Open(ctx, k, "/g", group.Options{})
		must(t, err)
		defer g.Close(context.Background())
		id := "go"
		if kind == "curator" {
			p.ask("join /g java data")
		} else {
			p.ask("shallow /g python")
			id = strings.Repeat("0123456789abcdef", 2) + "-go" // as kazoo reads it
		}
		m, err := group.Join(ctx, k, "/g", id, []byte("ours"), group.JoinOptions{})
		must(t, err)
		members, err := g.WaitFor(ctx, func(all []group.Info) bool { return len(all) == 2 })
		must(t, err)
		names := members[0].ID + " " + members[1].ID
		if kind == "curator" {
			want(t, "members", names, "go java")
			want(t, "data", string(members[1].Data), "data")
			for deadline := time.Now().Add(patience); p.ask("members /g") != "go=ours java=data"; { // its cache needs a moment
				if time.Now().After(deadline) {
					t.Fatal("Curator does not see our member")
				}
			}
		} else {
			want(t, "members", names, "go python")
			want(t, "kazoo sees", p.ask("members /g"), "go python")
			p.ask("party /party python")
			party, err := group.Open(ctx, k, "/party", group.Options{})
			must(t, err)
			defer party.Close(context.Background())
			want(t, "Party", party.Members()[0].ID, "python")
			theirs, err := group.Join(ctx, k, "/party", strings.Repeat("0123456789abcdef", 2)+"__party__", []byte("go"), group.JoinOptions{})
			must(t, err)
			want(t, "kazoo's Party sees", p.ask("members /party"), "go python")
			must(t, theirs.Close(ctx))
		}
		must(t, m.Close(ctx))
		p.ask("leave /g")
		_, err = g.WaitFor(ctx, func(all []group.Info) bool { return len(all) == 0 })
		must(t, err)
	})
}

func TestCounters(t *testing.T) {
	each(t, func(t *testing.T, kind string, p peer, k *client.Keeper) {
		formats := map[string]counter.Format{"shared": counter.Int32, "long": counter.Int64}
		if kind == "kazoo" {
			formats = map[string]counter.Format{"counter": counter.Decimal, "curator-counter": counter.Int32}
		}
		for name, format := range formats {
			for _, exact := range []bool{false, true} {
				path := fmt.Sprintf("/%s-%v", name, exact)
				c, err := counter.New(k, path, counter.Options{Format: format, Exact: exact})
				must(t, err)
				want(t, path, p.ask("%s %s 258", name, path), "258")
				v, err := c.Add(limited(t), -300)
				want(t, path, fmt.Sprint(v.Number, err), "-42 <nil>")
				want(t, path, p.ask("%s %s 1", name, path), "-41")
			}
		}
	})
}

func TestBarriers(t *testing.T) {
	each(t, func(t *testing.T, kind string, p peer, k *client.Keeper) {
		ctx := limited(t)
		b, err := barrier.New(k, "/b", barrier.Options{})
		must(t, err)
		p.ask("set /b")
		open := make(chan error, 1)
		go func() { open <- b.Wait(ctx) }()
		select {
		case err := <-open:
			t.Errorf("passed a closed barrier: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		p.ask("remove /b")
		must(t, <-open)
		must(t, b.Set(ctx))
		p.Send("wait /b")
		p.Quiet(300 * time.Millisecond)
		must(t, b.Remove(ctx))
		want(t, "waited", strings.ToLower(p.Expect("ok")), "true")

		// Two of ours and the peer, twice.
		for range 2 {
			errs := make(chan error, 2)
			var doubles []*barrier.Double
			for range 2 {
				d, err := barrier.NewDouble(k, "/d", 3, barrier.Options{})
				must(t, err)
				doubles = append(doubles, d)
				go func() { errs <- d.Enter(ctx) }()
			}
			select {
			case err := <-errs:
				t.Errorf("entered without the peer: %v", err)
			case <-time.After(300 * time.Millisecond):
			}
			want(t, "entered", strings.ToLower(p.ask("enter /d 3")), "true")
			must(t, <-errs)
			must(t, <-errs)
			for _, d := range doubles {
				go func() { errs <- d.Leave(ctx) }()
			}
			select {
			case err := <-errs:
				t.Errorf("left without the peer: %v", err)
			case <-time.After(300 * time.Millisecond):
			}
			want(t, "left", strings.ToLower(p.ask("exit")), "true")
			must(t, <-errs)
			must(t, <-errs)
		}
	})
}

// A member of kazoo's that leaves as soon as it has entered takes ready along before ours may have seen it.
func TestAMemberOfKazooLeavesAtOnce(t *testing.T) {
	p, k := setUp(t, "kazoo")
	ctx := limited(t)
	for i := range 20 {
		path := fmt.Sprint("/d", i)
		d, err := barrier.NewDouble(k, path, 2, barrier.Options{})
		must(t, err)
		passed := make(chan error, 1)
		go func() { passed <- errors.Join(d.Enter(ctx), d.Leave(ctx)) }()
		want(t, "passed", p.ask("pass %s 2", path), "true")
		must(t, <-passed)
	}
}

// A ready that was left behind is removed, after znodes have come and gone.
func TestReadyThatWasLeftBehind(t *testing.T) {
	ctx := limited(t)
	srv := apache.Start(t, apache.Options{})
	k, err := client.Keep(ctx, srv.Addr(), client.Options{})
	must(t, err)
	defer k.Close(context.Background())
	s, err := k.Session(ctx)
	must(t, err)
	for round := range 3 {
		must(t, s.EnsurePath(ctx, "/d/ready", nil))
		for i := range round {
			path := fmt.Sprintf("/d/%d", i)
			must(t, s.EnsurePath(ctx, path, nil))
			must(t, s.Delete(ctx, path, zk.AnyVersion))
		}
		errs := make(chan error, 2)
		for range 2 {
			d, err := barrier.NewDouble(k, "/d", 2, barrier.Options{})
			must(t, err)
			go func() { errs <- errors.Join(d.Enter(ctx), d.Leave(ctx)) }()
		}
		must(t, <-errs)
		must(t, <-errs)
		names, _, err := s.Children(ctx, "/d")
		must(t, err)
		want(t, "left behind", fmt.Sprint(names), "[]")
	}
}

// kazoo's SetPartitioner and ours share a set: nothing is worked on twice, and each has the share that both expect. kazoo waits for
// work that has not ended.
func TestPartition(t *testing.T) {
	p, k := setUp(t, "kazoo")
	ctx := limited(t)
	items := []string{"i1", "i2", "i3", "i4", "i5"}
	var busy atomic.Int32 // how many items are worked on here
	work := func(ctx context.Context, item string, _ *lock.Hold) error {
		busy.Add(1)
		defer busy.Add(-1)
		<-ctx.Done()
		time.Sleep(6 * time.Second) // longer than kazoo waits before it takes the locks of its share, and we see that it has them
		return ctx.Err()
	}
	ours, err := partition.Join(ctx, k, "/p", "a-go", items, work, partition.Options{Allocate: partition.Slices})
	must(t, err)
	defer ours.Close(context.Background())
	await := func(want string) {
		t.Helper()
		for {
			now, changed := ours.Items()
			slices.Sort(now)
			if strings.Join(now, ",") == want {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("we have %v, want %s", now, want)
			}
		}
	}
	await("i1,i2,i3,i4,i5")
	want(t, "kazoo's share", p.ask("partition /p b-python %s", strings.Join(items, ",")), "i2,i4")
	want(t, "what we worked on when kazoo had its share", fmt.Sprint(busy.Load()), "3")
	await("i1,i3,i5")
	p.ask("finish")
	await("i1,i2,i3,i4,i5")
}

// kazoo's Election is a lock of kazoo's, and with the pattern it and our mutex exclude each other.
func TestElection(t *testing.T) {
	p, k := setUp(t, "kazoo")
	ctx := limited(t)
	s, err := k.Session(ctx)
	must(t, err)
	m, err := lock.NewMutex(s, "/e", lock.Options{})
	must(t, err)
	h, err := m.Lock(ctx)
	must(t, err)
	p.ask("campaign /e python")
	want(t, "kazoo leads beside our holder", p.ask("leads 1"), "False")
	must(t, h.Release(ctx))
	want(t, "kazoo leads after our release", p.ask("leads 30"), "True")
	if _, err := m.TryLock(ctx); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("our try beside kazoo's leader: %v, want lock.ErrBusy", err)
	}
	p.ask("resign")
	h, err = m.Lock(ctx)
	must(t, err)
	must(t, h.Release(ctx))
}
