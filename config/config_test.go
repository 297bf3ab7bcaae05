package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/config"
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

type world struct {
	t     *testing.T
	srv   *zktest.Server
	k     *client.Keeper
	s     *client.Session
	proxy *faultproxy.Proxy
}

func in(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, srv: zktest.New(t, zktest.Options{})}
		w.proxy = faultproxy.New(w.srv.Link("a").Dial)
		t.Cleanup(w.proxy.Close)
		var err error
		w.k, err = client.Keep(t.Context(), zktest.Servers, client.Options{Dial: w.proxy.Dial})
		must(t, err)
		t.Cleanup(func() { w.k.Close(context.Background()) })
		w.s = w.srv.Session(t, "s")
		f(t, w)
	})
}

func (w *world) put(path, data string) {
	w.t.Helper()
	_, err := w.s.Put(w.t.Context(), path, []byte(data), nil)
	must(w.t, err)
	synctest.Wait()
}

func open[T any](w *world, opt config.Options[T], layers ...string) *config.Value[T] {
	w.t.Helper()
	v, err := config.Open(w.t.Context(), w.k, layers, opt)
	must(w.t, err)
	w.t.Cleanup(func() { v.Close(context.Background()) })
	return v
}

type limits struct {
	Rate  int
	Burst int
	Names map[string]string
	Pool  struct {
		Size int
		Wait time.Duration
	}
	Hosts []string
	On    *bool
	Ratio float64
	Small uint8
	At    time.Time
	Any   any
}

func TestTheLastGoodValueStays(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.put("/c", `{"rate":5}`)
		v := open(w, config.Options[limits]{Default: limits{Rate: 1, Burst: 2}, Validate: func(l limits) error {
			if l.Rate < 0 {
				return errors.New("the rate is negative")
			}
			return nil
		}}, "/c")
		check := func(what string, rate int, bad string) {
			t.Helper()
			synctest.Wait()
			st, _ := v.State()
			if v.Get().Rate != rate || st.Value.Rate != rate || v.Get().Burst != 2 || fmt.Sprint(st.Bad) != bad {
				t.Errorf("%s: %+v, bad: %v; want rate %d, bad: %s", what, v.Get(), st.Bad, rate, bad)
			}
		}
		check("first", 5, "<nil>")
		w.put("/c", `{"rate":`)
		check("malformed", 5, "config /c, version 1: unexpected end of JSON input")
		w.put("/c", `{"rate":-1}`)
		check("refused", 5, "config /c, version 2: the rate is negative")
		w.put("/c", `{"rate":7}`)
		check("good again", 7, "<nil>")
		must(t, w.s.DeleteAll(t.Context(), "/c"))
		check("deleted", 7, "config /c: nothing is configured, and Options.Optional is not set: no such znode")
		w.put("/c", `{"rate":8}`)
		check("there again", 8, "<nil>")
		w.srv.Link("a").Expire()
		time.Sleep(time.Minute)
		w.put("/c", `{"rate":9}`)
		check("after an expiry", 9, "<nil>")
		must(t, v.Close(t.Context()))
		if !errors.Is(v.Err(), zk.ErrClosed) {
			t.Errorf("Err: %v", v.Err())
		}
		if st, _ := v.State(); !errors.Is(st.Stale, zk.ErrClosed) || st.Value.Rate != 9 {
			t.Errorf("after Close the state is %+v, and may be behind because of %v", st.Value, st.Stale)
		}
	})
}

// A panic of the program's functions is one of the ways to refuse what is stored: it does not end the program.
func TestAPanicRefuses(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		type pooled struct{ Pool *struct{ Size int } }
		var log strings.Builder
		opt := config.Options[pooled]{
			Validate: func(p pooled) error { _ = p.Pool.Size; return nil },
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		}
		w.put("/c", `{"pool":{"size":5}}`)
		v := open(w, opt, "/c")
		w.put("/c", `{"pool":null}`)
		synctest.Wait()
		st, _ := v.State()
		if v.Get().Pool.Size != 5 || st.Bad == nil || !strings.HasPrefix(st.Bad.Error(), "config /c, version 1: panic: runtime error: ") {
			t.Errorf("%+v, bad: %v", v.Get(), st.Bad)
		}
		_, err := config.Open(t.Context(), w.k, []string{"/c"}, opt)
		var bad *config.BadError
		if !errors.As(err, &bad) || !strings.Contains(log.String(), "TestAPanicRefuses") {
			t.Errorf("Open: %v; the log does not say where: %s", err, &log)
		}
	})
}

// What the caller does with the layers and the default afterwards does not matter.
func TestOptionsAreCopied(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		layers, names := []string{"/c"}, map[string]string{"a": "1"}
		v := open(w, config.Options[limits]{Optional: true, Default: limits{Names: names}}, layers...)
		layers[0], names["a"] = "/other", "changed"
		w.put("/c", `{"rate":5}`)
		synctest.Wait()
		if got := v.Get(); got.Rate != 5 || got.Names["a"] != "1" {
			t.Errorf("%+v", got)
		}
		must(t, v.Close(t.Context()))
		if err := v.Err(); err == nil || !strings.HasPrefix(err.Error(), "config /c: ") {
			t.Errorf("Err: %v", err)
		}
	})
}

// Store needs to create a znode below that of the configuration, and what is missing above it. An error says that it is the other znode
// that was refused.
func TestStoreNamesTheZnodeThatIsRefused(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		_, err := w.s.Create(t.Context(), "/c", nil, zk.Persistent, []zk.ACL{{Perms: zk.PermRead | zk.PermWrite, Scheme: "world", ID: "anyone"}})
		must(t, err)
		for path, refused := range map[string]string{"/c": "/c/_writer", "/c/a/b": "/c/a"} {
			err = config.Store(t.Context(), w.k, path, []byte("{}"), zk.AnyVersion, config.StoreOptions{})
			if !errors.Is(err, zk.ErrNoAuth) || !strings.HasPrefix(err.Error(), "store "+path+": ") || !strings.Contains(err.Error(), "create "+refused+": ") {
				t.Errorf("%v, want that %s was refused", err, refused)
			}
		}
	})
}

func TestOpenFailsWithWhatIsBad(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.put("/bad", "x")
		var bad *config.BadError
		if _, err := config.Open(t.Context(), w.k, []string{"/bad"}, config.Options[limits]{}); !errors.As(err, &bad) || bad.Path != "/bad" || bad.Version != 0 {
			t.Errorf("malformed: %v", err)
		}
		if _, err := config.Open(t.Context(), w.k, []string{"/none"}, config.Options[limits]{}); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("missing: %v", err)
		}
		if _, err := config.Open(t.Context(), w.k, []string{"no path"}, config.Options[limits]{}); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("a bad path: %v", err)
		}
		if _, err := config.Open(t.Context(), w.k, nil, config.Options[limits]{}); fmt.Sprint(err) != "config: no path is given" {
			t.Errorf("no path: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		w.proxy.SetFlow(faultproxy.ToClient, faultproxy.Stall)
		_, err := config.Open(ended, w.k, []string{"/c"}, config.Options[limits]{})
		if errors.As(err, &bad) || !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "config /c: context") {
			t.Errorf("an ended context: %v", err)
		}
		w.proxy.SetFlow(faultproxy.ToClient, faultproxy.Pass)
		if v := open(w, config.Options[limits]{Optional: true, Default: limits{Rate: 3}}, "/none"); v.Get().Rate != 3 {
			t.Errorf("optional: %+v", v.Get())
		}
		w.k.Close(t.Context())
		_, err = config.Open(t.Context(), w.k, []string{"/c"}, config.Options[limits]{})
		bad = nil
		if errors.As(err, &bad) || !errors.Is(err, zk.ErrClosed) || !strings.HasPrefix(err.Error(), "config /c: ") {
			t.Errorf("a closed keeper: %v", err)
		}
	})
}

// A first value that is bad is the error of Open alone: the log does not say that a good one stays in force.
func TestOpenLogsNoValueThatThereIsNot(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		if _, err := config.Open(t.Context(), w.k, []string{"/c"}, config.Options[int]{Logger: logger}); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("Open = %v", err)
		}
		if strings.Contains(log.String(), "in force") {
			t.Errorf("the log: %s", log.String())
		}
	})
}

// The parent that Store makes for a layer is there without data, and no layer.
func TestALayerWithoutDataIsAbsent(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		must(t, config.Store(t.Context(), w.k, "/config/app/prod", []byte(`{"rate":5}`), zk.AnyVersion, config.StoreOptions{Label: "t"}))
		synctest.Wait()
		v := open(w, config.Options[limits]{}, "/config/app/prod", "/config/app")
		if st, _ := v.State(); st.Bad != nil || st.Value.Rate != 5 || len(st.Sources) != 1 || st.Sources[0].Path != "/config/app/prod" {
			t.Errorf("a parent that Store has made: %+v", st)
		}
		w.put("/config/app", `{"rate":1,"burst":2}`)
		if got := v.Get(); got.Rate != 5 || got.Burst != 2 {
			t.Errorf("the parent has data: %+v", got)
		}
		w.put("/config/app", "")
		if st, _ := v.State(); st.Bad != nil || st.Value.Rate != 5 || st.Value.Burst != 0 {
			t.Errorf("the parent is empty again: %+v", st)
		}
		if v := open(w, config.Options[limits]{Optional: true, Default: limits{Rate: 3}}, "/config/app"); v.Get().Rate != 3 {
			t.Errorf("optional: %+v", v.Get())
		}
		_, err := config.Open(t.Context(), w.k, []string{"/config/app"}, config.Options[limits]{})
		var bad *config.BadError
		if !errors.Is(err, zk.ErrNoNode) || !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "config /config/app: nothing is configured") {
			t.Errorf("nothing but an empty layer: %v", err)
		}
	})
}

func TestKeysAndLayers(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		layers := config.SpringLayers("/config", "orders", "dev", "eu")
		if got := strings.Join(layers, " "); got != "/config/orders,eu /config/orders,dev /config/orders /config/application,eu /config/application,dev /config/application" {
			t.Errorf("layers: %s", got)
		}
		w.put("/config/application/rate", "1")
		w.put("/config/application/burst", "10")
		w.put("/config/application/names/a.b", "general")
		w.put("/config/application/names/c", "general")
		w.put("/config/orders/pool/size", " 4 ")
		w.put("/config/orders/pool.wait", "1m30s")
		w.put("/config/orders/hosts", "x, y")
		w.put("/config/orders/on", "true")
		w.put("/config/orders/ratio", "0.5")
		w.put("/config/orders/small", "255")
		w.put("/config/orders/at", "2026-01-02T03:04:05Z")
		w.put("/config/orders/unknown", "passed over")
		w.put("/config/orders/_hidden", "passed over")
		w.put("/config/orders,dev/rate", "2")
		w.put("/config/orders,eu/names/c", "special")
		v := open(w, config.Options[limits]{Keys: true, Default: limits{Names: map[string]string{"d": "default"}}}, layers...)
		l := v.Get()
		got := fmt.Sprint(l.Rate, l.Burst, l.Names, l.Pool.Size, l.Pool.Wait, l.Hosts, *l.On, l.Ratio, l.Small, l.At.Year())
		if want := "2 10 map[a.b:general c:special d:default] 4 1m30s [x y] true 0.5 255 2026"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		before := v.Get().Names
		w.put("/config/orders,eu/names/c", "more special")
		if before["c"] != "special" || v.Get().Names["c"] != "more special" {
			t.Errorf("before %v, now %v", before, v.Get().Names)
		}
		for key, want := range map[string]string{
			"rate": `"x" is no int: invalid syntax`, "small": `"x" is no uint8: invalid syntax`, "on": `"x" is no bool: invalid syntax`,
			"pool/wait": `"x" is no duration, such as 1m30s`, "ratio": `"x" is no float64: invalid syntax`, "any": "a value of type interface {} cannot be set from text",
			"at": `parsing time "x" as`,
		} {
			w.put("/config/orders,eu/"+key, "x")
			st, _ := v.State()
			if bad := fmt.Sprint(st.Bad); !strings.HasPrefix(bad, "config /config/orders,eu/"+key+", version ") || !strings.Contains(bad, want) {
				t.Errorf("%s: %s", key, bad)
			}
			must(t, w.s.DeleteAll(t.Context(), "/config/orders,eu/"+key))
			synctest.Wait()
		}
		if st, _ := v.State(); st.Bad != nil || v.Get().Rate != 2 {
			t.Errorf("good again: %v", st.Bad)
		}
	})
}

// Lost answers, and writers that come in between: the version decides, and the writer is told only of writes with Store.
type (
	common struct{ Rate, Burst int }
	Deep   struct {
		Name string
		*Deeper
	}
	Deeper struct{ Depth, Rate int }
	Named  struct{ Rate int }
)

// letters counts the letters that it has been decoded from.
type letters struct{ n int }

func (l *letters) UnmarshalJSON(b []byte) error {
	l.n += len(b) - len(`""`)
	return nil
}

// With Strict a key that is misspelt does not come into force: in JSON, at any depth, and among znodes. Without it, it is passed over.
func TestStrict(t *testing.T) {
	type conf struct {
		Rate  int
		Limit struct{ Bytes int }
		Peers map[string]struct{ Port int }
		Start string `json:"-"`
	}
	in(t, func(t *testing.T, w *world) {
		for i, c := range []struct {
			keys       bool
			data       map[string]string // by key; "" is the layer
			wantInText string
		}{
			{false, map[string]string{"": `{"rate":1,"limit":{"bytes":2},"peers":{"a":{"port":3}}}`}, ""},
			{false, map[string]string{"": `{"rate":1,"burts":2}`}, "burts"},
			{false, map[string]string{"": `{"rate":1,"limit":{"byte":2}}`}, "byte"},
			{true, map[string]string{"rate": "1", "limit/bytes": "2", "peers/a/port": "3", "_writer": "x"}, ""},
			{false, map[string]string{"": `{"rate":1,"-":"x"}`}, "-"},
			{true, map[string]string{"rate": "1", "burts": "2"}, "/burts"},
			{true, map[string]string{"rate": "1", "-": "x"}, "/-"},
			{true, map[string]string{"rate": "1", "limit/byte": "2"}, "/limit/byte"},
			{true, map[string]string{"rate": "1", "peers/a/prot": "2"}, "/peers/a/prot"},
		} {
			layer := fmt.Sprintf("/c%d", i)
			for key, data := range c.data {
				w.put(strings.TrimSuffix(layer+"/"+key, "/"), data)
			}
			lenient := open(w, config.Options[conf]{Keys: c.keys}, layer)
			if got := lenient.Get(); got.Rate != 1 || got.Start != "" {
				t.Errorf("%v: %+v", c.data, got)
			}
			v, err := config.Open(t.Context(), w.k, []string{layer}, config.Options[conf]{Keys: c.keys, Strict: true})
			if (err == nil) != (c.wantInText == "") || err != nil && !strings.Contains(err.Error(), c.wantInText) {
				t.Errorf("%v: %v, want an error about %q", c.data, err, c.wantInText)
			}
			if err == nil {
				must(t, v.Close(t.Context()))
			}
		}
		w.put("/set", `{"names":["a"]}`)
		if v := open(w, config.Options[struct{ Names []letters }]{Strict: true}, "/set").Get(); fmt.Sprint(v.Names) != "[{1}]" {
			t.Errorf("a type that counts how often it is decoded into: %v", v.Names)
		}
		own := func([]byte, *conf) error { return nil }
		if _, err := config.Open(t.Context(), w.k, []string{"/c0"}, config.Options[conf]{Decode: own, Strict: true}); err == nil || !strings.Contains(err.Error(), "Decode") {
			t.Errorf("Strict with a decoder of the program's: %v", err)
		}
	})
}

// The fields of embedded structs are keys, as they are in JSON.
func TestKeysOfEmbeddedStructs(t *testing.T) {
	type conf struct {
		common
		*Deep
		Named `json:"named"`
		Burst string
	}
	in(t, func(t *testing.T, w *world) {
		for path, data := range map[string]string{"rate": "1", "burst": "outer", "name": "n", "depth": "2", "named/rate": "3", "common/rate": "9"} {
			w.put("/c/"+path, data)
		}
		w.put("/j", `{"rate":1,"burst":"outer","name":"n","depth":2,"named":{"rate":3},"common":{"rate":9}}`)
		keys := open(w, config.Options[conf]{Keys: true}, "/c").Get()
		if got, want := text(keys), text(open(w, config.Options[conf]{}, "/j").Get()); got != want || keys.Depth != 2 || keys.common.Burst != 0 {
			t.Errorf("by keys: %s, by JSON: %s", got, want)
		}
		type shut struct{ *common }
		if _, err := config.Open(t.Context(), w.k, []string{"/c"}, config.Options[shut]{Keys: true}); err == nil || !strings.Contains(err.Error(), "embedded pointer") {
			t.Errorf("an embedded pointer that cannot be set: %v", err)
		}
	})
}

// Where the elements of a map have no keys of their own, the rest of the path is the name of one, whatever their type.
func TestKeysOfMaps(t *testing.T) {
	type conf struct {
		Weights map[string]int
		Flags   map[string]*bool
		Waits   map[string]map[string]time.Duration
		Since   map[string]time.Time
		Hosts   map[string][]string
		Pools   map[string]*struct{ Size int }
	}
	in(t, func(t *testing.T, w *world) {
		for path, data := range map[string]string{"weights/www.example.com": "5", "weights/a/b": "6", "flags/new.checkout": "true", "waits/x/y.z": "1s",
			"since/v1.2": "2026-01-02T03:04:05Z", "hosts/eu.west": "h1,h2", "pools/main.size": "7", "pools/other/size": "8"} {
			w.put("/c/"+path, data)
		}
		v := open(w, config.Options[conf]{Keys: true, Strict: true}, "/c")
		want := `{"Weights":{"a.b":6,"www.example.com":5},"Flags":{"new.checkout":true},"Waits":{"x":{"y.z":1000000000}},` +
			`"Since":{"v1.2":"2026-01-02T03:04:05Z"},"Hosts":{"eu.west":["h1","h2"]},"Pools":{"main":{"Size":7},"other":{"Size":8}}}`
		if got := text(v.Get()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestStore(t *testing.T) {
	for i := -1; i < 20; i++ {
		in(t, func(t *testing.T, w *world) {
			m := faultproxy.Match{Ops: []wire.Op{wire.OpMulti, wire.OpExists, wire.OpCreate2, wire.OpSync, wire.OpGetData}, Skip: max(i, 0) / 2}
			switch {
			case i < 0:
			case i%2 == 0:
				w.proxy.CutBefore(m)
			default:
				w.proxy.CutAfter(m)
			}
			ctx := t.Context()
			must(t, config.Store(ctx, w.k, "/c/orders", []byte(`{"rate":1}`), config.NotThere, config.StoreOptions{Label: "first"}))
			if err := config.Store(ctx, w.k, "/c/orders", []byte(`{"rate":0}`), config.NotThere, config.StoreOptions{Label: "x"}); !errors.Is(err, zk.ErrNodeExists) || client.MaybeApplied(err) && i < 0 {
				t.Errorf("%d: NotThere of what is there: %v", i, err)
			}
			v := open(w, config.Options[limits]{}, "/c/orders")
			source := func() config.Source {
				synctest.Wait()
				st, _ := v.State()
				return st.Sources[0]
			}
			if who := source().Writer; who == nil || who.Label != "first" || who.Host == "" || who.PID == 0 {
				t.Errorf("%d: writer %+v", i, who)
			}
			must(t, config.Store(ctx, w.k, "/c/orders", []byte(`{"rate":2}`), source().Stat.Version, config.StoreOptions{Label: "second"}))
			time.Sleep(time.Second)
			if src := source(); src.Writer == nil || src.Writer.Label != "second" || src.Stat.Version != 1 || v.Get().Rate != 2 {
				t.Errorf("%d: %+v by %+v, rate %d", i, src.Stat, src.Writer, v.Get().Rate)
			}
			if err := config.Store(ctx, w.k, "/c/orders", []byte(`{}`), 0, config.StoreOptions{Label: "late"}); !errors.Is(err, zk.ErrBadVersion) || !strings.HasPrefix(err.Error(), "store /c/orders: "+zk.ErrBadVersion.Error()) || client.MaybeApplied(err) && i < 0 {
				t.Errorf("%d: an old version: %v", i, err)
			}
			w.put("/c/orders", `{"rate":3}`)
			if src := source(); src.Writer != nil || v.Get().Rate != 3 {
				t.Errorf("%d: a stranger's write by %+v, rate %d", i, src.Writer, v.Get().Rate)
			}
			must(t, config.Store(ctx, w.k, "/c/orders", []byte(`{"rate":4}`), zk.AnyVersion, config.StoreOptions{Label: "third"}))
			must(t, config.Store(ctx, w.k, "/c/new", []byte(`{}`), zk.AnyVersion, config.StoreOptions{Label: "fourth"}))
			time.Sleep(time.Second)
			if src := source(); src.Writer == nil || src.Writer.Label != "third" || v.Get().Rate != 4 {
				t.Errorf("%d: %+v, rate %d", i, src.Writer, v.Get().Rate)
			}
		})
	}
}

// A write is carried out, its answer is lost, and another writer replaces it before the look. Whatever ends the write later,
// its outcome stays unknown.
func TestStoreStaysInDoubt(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
		then func(w *world, cancel func()) // while the look at the writer waits
	}{
		{"the context, during the look", context.Canceled, func(w *world, cancel func()) { cancel() }},
		{"a deleted znode", zk.ErrNoNode, func(w *world, _ func()) { w.s.DeleteAll(context.Background(), "/c") }},
		{"another version", zk.ErrBadVersion, func(*world, func()) {}},
		{"the context, before the transaction is prepared", context.Canceled, func(w *world, cancel func()) {
			w.proxy.Before(faultproxy.Match{Ops: []wire.Op{wire.OpExists}}, func(faultproxy.Request) { cancel() })
		}},
		{"the context, before the transaction is sent again", context.Canceled, func(w *world, cancel func()) {
			w.proxy.After(faultproxy.Match{Ops: []wire.Op{wire.OpExists}, Skip: 1}, func(faultproxy.Request, faultproxy.Reply) { cancel() })
		}},
		{"no right to write", zk.ErrNoAuth, func(w *world, _ func()) {
			_, err := w.s.SetACL(context.Background(), "/c", zk.ReadOnlyACL(), zk.AnyVersion)
			must(w.t, err)
		}},
		{"the session", zk.ErrSessionExpired, func(w *world, _ func()) {
			w.proxy.Before(faultproxy.Match{Ops: []wire.Op{wire.OpExists}}, func(faultproxy.Request) { w.srv.Link("a").Expire() })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.put("/c", "before")
				w.put("/c/_writer", "")
				ctx, cancel := context.WithCancel(t.Context())
				w.proxy.CutAfter(faultproxy.Match{Ops: []wire.Op{wire.OpMulti}})
				w.proxy.Before(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}}, func(faultproxy.Request) {
					w.s.Put(context.Background(), "/c", []byte("another's"), nil)
					w.s.Put(context.Background(), "/c/_writer", []byte("another"), nil)
					c.then(w, cancel)
				})
				err := config.Store(ctx, w.k, "/c", []byte("ours"), 0, config.StoreOptions{})
				if !errors.Is(err, c.want) || !client.MaybeApplied(err) {
					t.Errorf("%v, want %v and an unknown outcome", err, c.want)
				}
			})
		})
	}
}

// A session that ends before anything is written does not fail the call.
func TestStoreGoesOnUnderTheNextSession(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.proxy.Before(faultproxy.Match{Ops: []wire.Op{wire.OpExists}}, func(faultproxy.Request) { w.srv.Link("a").Expire() })
		must(t, config.Store(t.Context(), w.k, "/c", []byte("ours"), zk.AnyVersion, config.StoreOptions{}))
		s, err := w.k.Session(t.Context())
		must(t, err)
		data, _, err := s.Get(t.Context(), "/c")
		if err != nil || string(data) != "ours" {
			t.Errorf("stored %q, %v", data, err)
		}
	})
}

func TestChanges(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.put("/c", `{"rate":1}`)
		v := open(w, config.Options[limits]{}, "/c")
		go func() {
			for _, data := range []string{`{"rate":2}`, `{`, `{"rate":3}`} {
				time.Sleep(time.Minute)
				w.s.Set(context.Background(), "/c", []byte(data), zk.AnyVersion)
			}
		}()
		var got []string
		for st, err := range v.Changes(t.Context()) {
			must(t, err)
			got = append(got, fmt.Sprint(st.Value.Rate, st.Bad != nil))
			if st.Value.Rate == 3 {
				break
			}
		}
		if s := strings.Join(got, ", "); s != "1 false, 2 false, 2 true, 3 false" {
			t.Errorf("states: %s", s)
		}
	})
}

type server struct {
	Name  string
	Port  int
	Zones []string
}

// A looker is a slog.Handler that looks at a Value.
type looker struct {
	slog.Handler
	v    atomic.Pointer[config.Value[int]]
	seen atomic.Pointer[config.State[int]] // at the last line
}

func (l *looker) Handle(context.Context, slog.Record) error {
	if v := l.v.Load(); v != nil {
		st, _ := v.State()
		l.seen.Store(&st)
	}
	return nil
}

// What is logged is true already, and a handler of log lines may look at the Value.
func TestALoggerLooksAtTheValue(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		l := &looker{Handler: slog.NewTextHandler(io.Discard, nil)}
		w.put("/c", "1")
		v := open(w, config.Options[int]{Logger: slog.New(l)}, "/c")
		l.v.Store(v)
		w.put("/c", "2")
		if st := l.seen.Load(); st == nil || st.Value != 2 || st.Bad != nil {
			t.Errorf("in force: the handler has seen %+v", st)
		}
		w.put("/c", "x")
		if st := l.seen.Load(); st == nil || st.Value != 2 || st.Bad == nil {
			t.Errorf("refused: the handler has seen %+v", st)
		}
	})
}

// A reader that is slow is told the last state, although the Value has ended since.
func TestTheLastStateIsTold(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Dial})
			must(t, err)
			v, err := config.Open(t.Context(), k, []string{"/c"}, config.Options[int]{Optional: true})
			must(t, err)
			var last config.State[int]
			for st, err := range v.Changes(t.Context()) {
				if err != nil {
					break
				}
				last = st
				must(t, k.Close(t.Context()))
				<-v.Done()
			}
			if st, _ := v.State(); last.Stale == nil || st.Stale == nil {
				t.Fatalf("the last state was stale because of %v, and was told as %v", st.Stale, last.Stale)
			}
			must(t, v.Close(t.Context()))
		})
	}
}

// A farm has all that a document can be decoded into and that a copy of the value would share.
type farm struct {
	Hosts   []string
	Names   map[string]string
	Main    *server
	Servers []server
	Pair    [2]*server
	Extra   any
	Most    *big.Int
	Zone    *time.Location `json:"-"`
	base
	*yard
}

type base struct{ Tags []string }

type yard struct {
	Gates []server
	Size  int
}

func newFarm() farm {
	return farm{
		Hosts:   []string{"a", "b"},
		Names:   map[string]string{"d": "default"},
		Main:    &server{"main", 1, []string{"x", "y"}},
		Servers: []server{{"s0", 10, []string{"z0"}}, {"s1", 11, []string{"z1"}}},
		Pair:    [2]*server{{"p0", 20, nil}, {"p1", 21, nil}},
		Extra:   &server{"extra", 2, []string{"e"}},
		Most:    big.NewInt(12),
		Zone:    time.Local,
		base:    base{Tags: []string{"t"}},
		yard:    &yard{[]server{{"g0", 30, nil}, {"g1", 31, nil}}, 3},
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Data that is refused, and data that comes into force later, changes neither the default, nor the value in force, nor one
// that a reader has taken before; and a value has nothing of those before it.
func TestValuesShareNothing(t *testing.T) {
	all := `{"hosts":["h"],"names":{"n":"x"},"main":{"name":"m","zones":["q"]},"servers":[{"name":"r"}],` +
		`"pair":[{"name":"o"}],"extra":{"port":9,"zones":["f"]},"most":13,"tags":["u"],"gates":[{"name":"g"}],"size":4}`
	for _, c := range []struct {
		name string
		opt  config.Options[farm]
		keys []string // of all, with text
	}{
		{name: "JSON"},
		{name: "a decoder", opt: config.Options[farm]{Decode: func(data []byte, f *farm) error {
			f.Most = nil // its digits cannot be copied
			return json.Unmarshal(data, f)
		}}},
		{name: "keys", opt: config.Options[farm]{Keys: true}, keys: []string{"hosts", "h", "names/n", "x", "main/name", "m", "main/zones", "q", "size", "4"}},
	} {
		in(t, func(t *testing.T, w *world) {
			var refuse atomic.Bool
			c.opt.Default, c.opt.Optional = newFarm(), true
			c.opt.Validate = func(farm) error {
				if refuse.Load() {
					return errors.New("refused")
				}
				return nil
			}
			write := func(data string, keys []string) {
				t.Helper()
				if !c.opt.Keys {
					w.put("/c", data)
				}
				for i := 0; c.opt.Keys && i < len(keys); i += 2 {
					w.put("/c/"+keys[i], keys[i+1])
				}
			}
			v := open(w, c.opt, "/c")
			before, want := v.Get(), text(newFarm())
			same := func(when string) {
				t.Helper()
				if got := text(c.opt.Default); got != want {
					t.Errorf("%s, %s: the default is %s", c.name, when, got)
				}
				if got := text(before); got != want {
					t.Errorf("%s, %s: the first value is %s", c.name, when, got)
				}
			}
			refuse.Store(true)
			write(all, c.keys)
			same("after refused data")
			if st, _ := v.State(); st.Bad == nil || text(v.Get()) != want {
				t.Errorf("%s: bad: %v, in force: %s", c.name, st.Bad, text(v.Get()))
			}
			refuse.Store(false)
			write(all, c.keys)
			same("after good data")
			good := v.Get()
			if good.Hosts[0] != "h" || good.Names["n"] != "x" || good.Names["d"] != "default" || good.Main.Name != "m" || good.Main.Port != 1 || good.Size != 4 || good.Zone != time.Local {
				t.Errorf("%s: in force: %s", c.name, text(good))
			}
			goodText := text(good)
			must(t, w.s.DeleteAll(t.Context(), "/c"))
			synctest.Wait()
			same("after a deletion")
			if got := text(v.Get()); got != want {
				t.Errorf("%s: after a deletion: %s", c.name, got)
			}
			write(`{"names":{"o":"other"},"hosts":["i"],"main":{"name":"n"}}`, []string{"names/o", "other", "hosts", "i", "main/name", "n"})
			if got := v.Get().Names; len(got) != 2 || got["o"] != "other" || text(good) != goodText {
				t.Errorf("%s: a later value has %v, and the one before is %s", c.name, got, text(good))
			}
		})
	}
}

// A list of a layer has nothing of the lists of the layers behind it, nor of the default's; what is no list is laid over.
func TestAListReplacesAList(t *testing.T) {
	for _, c := range []struct{ lower, upper, want string }{
		{`{}`, `{}`, text(newFarm())},
		{`{"servers":[{"port":1,"zones":["a"]},{"name":"l1"}]}`, `{"servers":[{"name":"u0"},{"zones":["b"]},{"port":3}]}`,
			`"Servers":[{"Name":"u0","Port":0,"Zones":null},{"Name":"","Port":0,"Zones":["b"]},{"Name":"","Port":3,"Zones":null}]`},
		{`{"servers":[{"port":1},{"name":"l1"}]}`, `{"rate":1}`, `"Servers":[{"Name":"","Port":1,"Zones":null},{"Name":"l1","Port":0,"Zones":null}]`},
		{`{"servers":[{"port":1},{"port":2}]}`, `{"servers":[{}]}`, `"Servers":[{"Name":"","Port":0,"Zones":null}]`},
		{`{"servers":[]}`, `{"servers":[{"name":"u0"}]}`, `"Servers":[{"Name":"u0","Port":0,"Zones":null}]`},
		{`{"servers":[{"port":1}]}`, `{"SERVERS":[]}`, `"Servers":[]`},
		{`{"servers":[{"port":1}]}`, `{"servers":null}`, `"Servers":null`},
		{`{"servers":null}`, `{"hosts":[]}`, `"Servers":null`},
		{`{"main":{"zones":["l"]}}`, `{"main":{"port":5}}`, `"Main":{"Name":"main","Port":5,"Zones":["l"]}`},
		{`{"main":null}`, `{"main":{"port":5}}`, `"Main":{"Name":"","Port":5,"Zones":null}`},
		{`{"extra":{"zones":["l","m"]}}`, `{"extra":{"port":5}}`, `"Extra":{"Name":"extra","Port":5,"Zones":["l","m"]}`},
		{`{"tags":["l"]}`, `{"names":null}`, `"Names":null`},
		{`{"tags":["l"]}`, `{"hosts":["u"]}`, `"Tags":["l"]`},
		{`{"size":5}`, `{"gates":[{"name":"u0"}]}`, `"Gates":[{"Name":"u0","Port":0,"Zones":null}],"Size":5`},
		{`{"pair":[{"zones":["l"]},{"port":7}]}`, `{}`, `"Pair":[{"Name":"","Port":0,"Zones":["l"]},{"Name":"","Port":7,"Zones":null}]`},
		{`{"pair":[{"zones":["l"]},{"port":7}]}`, `{"pair":[{"port":3}]}`, `"Pair":[{"Name":"","Port":3,"Zones":null},null]`},
		{`{"pair":[{"zones":["l"]},{"port":7}]}`, `{"pair":[]}`, `"Pair":[null,null]`},
		{`{"most":99}`, `{"hosts":["u"]}`, `"Most":99`},
		{`{"most":99}`, `{"most":0}`, `"Most":0`},
		{`{"most":99}`, `{"most":null}`, `"Most":null`},
	} {
		in(t, func(t *testing.T, w *world) {
			w.put("/lower", c.lower)
			w.put("/upper", c.upper)
			v := open(w, config.Options[farm]{Default: newFarm()}, "/upper", "/lower")
			if got := text(v.Get()); !strings.Contains(got, c.want) {
				t.Errorf("%s over %s: got %s, want %s", c.upper, c.lower, got, c.want)
			}
		})
	}
}

// pointed has methods of a pointer that is nil.
type pointed struct{ *time.Time }

// What is stored under a key must not end the programs that read it, and a name that is no key is passed over.
func TestKeysThatCannotBeSet(t *testing.T) {
	type conf struct {
		Name string
		Due  pointed
	}
	in(t, func(t *testing.T, w *world) {
		w.put("/c/name", "x")
		w.put("/c/...", "x")
		v := open(w, config.Options[conf]{Keys: true}, "/c")
		w.put("/c/due", "2026-01-02T03:04:05Z")
		st, _ := v.State()
		var bad *config.BadError
		if v.Get().Name != "x" || !errors.As(st.Bad, &bad) || bad.Path != "/c/due" || !strings.Contains(bad.Error(), "panic") {
			t.Errorf("state %+v, want the panic at /c/due", st)
		}
		_, err := config.Open(t.Context(), w.k, []string{"/c"}, config.Options[conf]{Keys: true, Strict: true})
		if !errors.As(err, &bad) || bad.Path != "/c/..." || !strings.Contains(bad.Error(), "no such key") {
			t.Errorf("strict: %v, want that /c/... is no key", err)
		}
	})
}
