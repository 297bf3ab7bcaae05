package discovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/discovery"
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

func keep(t testing.TB, srv *zktest.Server, label string) *client.Keeper {
	t.Helper()
	k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Link(label).Dial})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	return k
}

func open(t testing.TB, k *client.Keeper, opt discovery.Options) *discovery.Directory {
	t.Helper()
	d, err := discovery.Open(t.Context(), k, "/services", opt)
	must(t, err)
	t.Cleanup(func() { d.Close(context.Background()) })
	return d
}

func ids(all []discovery.Instance) string {
	var s []string
	for _, i := range all {
		s = append(s, i.ID)
	}
	return strings.Join(s, " ")
}

// hostPort returns the address of an instance, or the error.
func hostPort(i discovery.Instance) string {
	address, err := i.HostPort()
	if err != nil {
		return err.Error()
	}
	return address
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func TestRegisterAndResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ka, kb := keep(t, srv, "a"), keep(t, srv, "b")
		d := open(t, kb, discovery.Options{})
		_, err := d.RoundRobin("worker")
		var none *discovery.NoInstanceError
		if !errors.As(err, &none) || !errors.Is(err, discovery.ErrNoInstance) || err.Error() != "resolve /services/worker: no instance is registered" {
			t.Errorf("without instances: %v", err)
		}
		r, err := discovery.Register(t.Context(), ka, "/services", worker(), discovery.RegisterOptions{})
		must(t, err)
		want(t, "bytes", string(srv.Tree("/services/worker/id-1")[0].Data), golden)
		if srv.Tree("/services/worker")[0].Mode != zk.Container {
			t.Error("the service is no container")
		}
		found, err := d.WaitFor(t.Context(), "worker", func(all []discovery.Instance) bool { return len(all) == 1 })
		must(t, err)
		want(t, "found", hostPort(found[0]), "10.0.0.1:8080")
		changed := worker()
		changed.Port, changed.ID = 9090, "ignored"
		must(t, r.Set(t.Context(), changed))
		synctest.Wait()
		i, err := d.RoundRobin("worker")
		want(t, "changed", fmt.Sprint(i.ID, i.Port, err), "id-19090 <nil>")
		srv.Link("a").Expire()
		time.Sleep(time.Minute)
		want(t, "after an expiry", ids(d.Instances("worker")), "id-1")
		must(t, r.Close(t.Context()))
		want(t, "closed", srv.Tree("/services/worker/id-1").String(), "")
		synctest.Wait()
		want(t, "services", fmt.Sprint(d.Services()), "[]")
		// An id of its own.
		r, err = discovery.Register(t.Context(), ka, "/services", discovery.Instance{Name: "w", Address: "h"}, discovery.RegisterOptions{})
		must(t, err)
		if id := r.Instance().ID; len(id) != 36 || id[14] != '4' {
			t.Errorf("id %q", id)
		}
		must(t, r.Close(t.Context()))
	})
}

func TestPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		must(t, discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "db", ID: "1", Address: "h"}, discovery.RegisterOptions{}))
		d := open(t, k, discovery.Options{})
		want(t, "published", string(d.Instances("db")[0].Type), "STATIC")
		must(t, discovery.Unpublish(t.Context(), k, "/services", "db", "1"))
		must(t, discovery.Unpublish(t.Context(), k, "/services", "db", "1"))
		synctest.Wait()
		want(t, "unpublished", ids(d.Instances("db")), "")
	})
}

// An instance that is not there is unpublished only once what was asked before is decided: a Publish that was given up may still come.
func TestUnpublishAwaitsWhatWasAskedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		p := faultproxy.New(srv.Link("a").Dial)
		defer p.Close()
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: p.Dial})
		must(t, err)
		defer k.Close(context.Background())
		mark := p.Mark()
		must(t, discovery.Unpublish(t.Context(), k, "/services", "db", "1"))
		want(t, "requests", p.Since(mark).Asked().But(wire.OpPing).Ops(), "sync, exists, multi, sync, exists")
	})
}

// Publish and Unpublish leave instances alone that go with a session, also one that comes at the last moment.
func TestPublishedOverARegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ka, other := keep(t, srv, "a"), srv.Session(t, "other")
		proxy := faultproxy.New(srv.Link("b").Dial)
		defer proxy.Close()
		kb, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: proxy.Dial})
		must(t, err)
		defer kb.Close(context.Background())
		i := discovery.Instance{Name: "db", ID: "1", Address: "h"}
		r, err := discovery.Register(t.Context(), ka, "/services", i, discovery.RegisterOptions{})
		must(t, err)
		before := srv.Tree("/services/db/1").String()
		refused := func(op string, err error) {
			t.Helper()
			var taken *discovery.TakenError
			if !errors.As(err, &taken) || !errors.Is(err, discovery.ErrTaken) || taken.Owner == 0 || !strings.HasPrefix(err.Error(), op+" /services/db/1: ") {
				t.Errorf("%s: %v", op, err)
			}
		}
		i.Address = "another"
		refused("publish", discovery.Publish(t.Context(), kb, "/services", i, discovery.RegisterOptions{}))
		refused("unpublish", discovery.Unpublish(t.Context(), kb, "/services", "db", "1"))
		want(t, "the registered one", srv.Tree("/services/db/1").String(), before)
		must(t, r.Close(t.Context()))
		// While the instance is published, it is deleted and registered by others.
		must(t, discovery.Publish(t.Context(), kb, "/services", i, discovery.RegisterOptions{}))
		proxy.Before(faultproxy.Match{Ops: []wire.Op{wire.OpSetData}}, func(faultproxy.Request) {
			must(t, other.Delete(context.Background(), "/services/db/1", zk.AnyVersion))
			_, err := other.Create(context.Background(), "/services/db/1", nil, zk.Ephemeral, nil)
			must(t, err)
		})
		refused("publish", discovery.Publish(t.Context(), kb, "/services", i, discovery.RegisterOptions{}))
		must(t, other.Delete(t.Context(), "/services/db/1", zk.AnyVersion))
		// While it is unpublished, another publishes it again.
		must(t, discovery.Publish(t.Context(), kb, "/services", i, discovery.RegisterOptions{}))
		proxy.Before(faultproxy.Match{Ops: []wire.Op{wire.OpDelete}}, func(faultproxy.Request) {
			must(t, discovery.Publish(context.Background(), ka, "/services", i, discovery.RegisterOptions{}))
		})
		must(t, discovery.Unpublish(t.Context(), kb, "/services", "db", "1"))
		want(t, "unpublished", srv.Tree("/services/db/1").String(), "")
	})
}

// Every request of Publish and Unpublish is lost in turn, before or after the server has carried it out.
func TestPublishedWithLostAnswers(t *testing.T) {
	for n := range 20 {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			proxy := faultproxy.New(srv.Link("a").Dial)
			defer proxy.Close()
			k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: proxy.Dial})
			must(t, err)
			defer k.Close(context.Background())
			m := faultproxy.Match{Ops: append(faultproxy.Creates(), wire.OpSetData, wire.OpDelete, wire.OpExists, wire.OpSync), Skip: n / 2}
			if n%2 == 0 {
				proxy.CutBefore(m)
			} else {
				proxy.CutAfter(m)
			}
			for _, address := range []string{"g", "h"} {
				must(t, discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "db", ID: "1", Address: address}, discovery.RegisterOptions{}))
				if got := srv.Tree("/services/db/1").String(); !strings.Contains(got, address) {
					t.Errorf("%d: published: %s", n, got)
				}
			}
			must(t, discovery.Unpublish(t.Context(), k, "/services", "db", "1"))
			want(t, fmt.Sprint(n, ": unpublished"), srv.Tree("/services/db/1").String(), "")
		})
	}
}

// An instance that may not be written again is published all the same after the answer to its creation was lost.
func TestPublishedReadOnlyWithALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		proxy := faultproxy.New(srv.Link("a").Dial)
		defer proxy.Close()
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: proxy.Dial})
		must(t, err)
		defer k.Close(context.Background())
		proxy.CutAfter(faultproxy.Match{Ops: faultproxy.Creates(), Path: "/services/db/1"})
		i := discovery.Instance{Name: "db", ID: "1", Address: "g"}
		opt := discovery.RegisterOptions{ACL: zk.ReadOnlyACL()}
		must(t, discovery.Publish(t.Context(), k, "/services", i, opt))
		i.Address = "h"
		if err := discovery.Publish(t.Context(), k, "/services", i, opt); !errors.Is(err, zk.ErrNoAuth) || client.MaybeApplied(err) {
			t.Errorf("another one: %v", err)
		}
	})
}

// The ACL of a published instance is not that of what is made above it, so that others can register there.
func TestPublishedWithACLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Link("a").Dial,
			Auth: []client.Auth{{Scheme: "digest", Credential: []byte("a:secret")}}})
		must(t, err)
		defer k.Close(context.Background())
		opt := discovery.RegisterOptions{ACL: zk.CreatorACL()}
		i := discovery.Instance{Name: "db", ID: "1", Address: "h"}
		srv.Link("a").LoseAnswer()
		must(t, discovery.Publish(t.Context(), k, "/services", i, opt))
		i.Port = 1
		must(t, discovery.Publish(t.Context(), k, "/services", i, opt))
		tree := srv.Tree("/services/db")
		if len(tree) != 2 || tree[0].Mode != zk.Container || tree[1].Mode != zk.Persistent {
			t.Fatalf("got %v, want a container and a persistent znode", tree)
		}
		want(t, "ACL of the service", fmt.Sprint(tree[0].ACL), fmt.Sprint(zk.OpenACL()))
		if acl := tree[1].ACL; len(acl) != 1 || acl[0].Scheme != "digest" {
			t.Errorf("ACL of the instance: %v", acl)
		}
		r, err := discovery.Register(t.Context(), keep(t, srv, "b"), "/services", discovery.Instance{Name: "db", ID: "2", Address: "h"}, discovery.RegisterOptions{})
		must(t, err)
		must(t, r.Close(t.Context()))
		opt.ParentACL = zk.ReadOnlyACL()
		err = discovery.Publish(t.Context(), k, "/other/services", i, opt)
		if !errors.Is(err, zk.ErrNoAuth) || fmt.Sprint(srv.Tree("/other")[0].ACL) != fmt.Sprint(opt.ParentACL) {
			t.Errorf("below znodes that can only be read: %v, %v", err, srv.Tree("/other"))
		}
		// Where there is no chroot, nothing can be published, and that is said.
		lost, err := client.Keep(t.Context(), zktest.Servers+"/missing", client.Options{Dial: srv.Dial})
		must(t, err)
		defer lost.Close(context.Background())
		if err := discovery.Publish(t.Context(), lost, "/", i, discovery.RegisterOptions{}); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("without the chroot: %v", err)
		}
	})
}

func TestWhatCannotBeRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		for name, i := range map[string]discovery.Instance{
			"register /services//x: ":    {ID: "x"},
			"register /services/a/b/x: ": {Name: "a/b", ID: "x"},
			"register /services/a/b/c: ": {Name: "a", ID: "b/c"},
			"register /services/a/o: ":   {Name: "a", ID: "o", Port: 80},
			"register /services/a/p: ":   {Name: "a", ID: "p", Address: "h", Port: 70000},
			"register /services/a/q: ":   {Name: "a", ID: "q", Address: "h", Payload: json.RawMessage("{")},
			"register /services/a/s: ":   {Name: "a", ID: "s", Address: "h", Type: discovery.Static},
		} {
			if _, err := discovery.Register(t.Context(), k, "/services", i, discovery.RegisterOptions{}); err == nil || !strings.HasPrefix(err.Error(), name) {
				t.Errorf("%v, want %q", err, name)
			}
		}
		err := discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "a", ID: "x", Port: 80}, discovery.RegisterOptions{})
		want(t, "no address", fmt.Sprint(err), "publish /services/a/x: the instance has no address, by which clients could reach it")
		err = discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "a", ID: "x", Address: "[::1]", Port: 80}, discovery.RegisterOptions{})
		want(t, "brackets", fmt.Sprint(err), "publish /services/a/x: address [::1]: an IPv6 address is written without brackets")
		if len(srv.Tree("/services")) > 0 {
			t.Errorf("tree:\n%s", srv.Tree("/services"))
		}
	})
}

// What cannot be read is kept apart, with its path.
func TestMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, s := keep(t, srv, "a"), srv.Session(t, "s")
		for path, data := range map[string]string{
			"/services/worker/id-1": golden, "/services/worker/bad": "127.0.0.1", "/services/other/id-1": golden,
			"/services/worker/id-1/below": "x", "/services/empty": "",
		} {
			_, err := s.Put(t.Context(), path, []byte(data), nil)
			must(t, err)
		}
		d := open(t, k, discovery.Options{})
		want(t, "instances", ids(d.Instances("worker")), "id-1")
		var paths []string
		for _, m := range d.Malformed() {
			paths = append(paths, m.Error())
		}
		want(t, "malformed", strings.Join(paths, "; "), `instance /services/other/id-1: it says that its name is "worker"; `+
			`instance /services/worker/bad: "127.0.0.1" is no instance: invalid character '.' after top-level value`)
		_, err := d.Random("other")
		want(t, "error", err.Error(), "resolve /services/other: no instance is registered that can be read, and 1 that cannot")
		_, err = s.Put(t.Context(), "/services/worker/bad", []byte(strings.Replace(golden, "id-1", "bad", 1)), nil)
		must(t, err)
		synctest.Wait()
		want(t, "cured", ids(d.Instances("worker")), "bad id-1")
	})
}

func publish(t testing.TB, k *client.Keeper, name string, n int) {
	t.Helper()
	for i := range n {
		must(t, discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: name, ID: strconv.Itoa(i), Address: "h", Port: 1 + i}, discovery.RegisterOptions{}))
	}
}

func TestStrategies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		publish(t, k, "s", 4)
		must(t, discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "s", ID: "off", Address: "h", Disabled: true}, discovery.RegisterOptions{}))
		d := open(t, k, discovery.Options{})
		round := func(n int) string {
			var s string
			for range n {
				i, err := d.RoundRobin("s")
				must(t, err)
				s += i.ID
			}
			return s
		}
		want(t, "round robin", round(6), "012301")
		seen := map[string]int{}
		for range 400 {
			i, err := d.Random("s")
			must(t, err)
			seen[i.ID]++
		}
		if len(seen) != 4 || seen["0"] < 50 || seen["3"] < 50 {
			t.Errorf("random: %v", seen)
		}
		stuck := map[string]string{}
		per := map[string]int{}
		for key := range 400 {
			i, err := d.Sticky("s", strconv.Itoa(key))
			must(t, err)
			stuck[strconv.Itoa(key)] = i.ID
			per[i.ID]++
		}
		if per["0"] < 50 || per["1"] < 50 || per["2"] < 50 || per["3"] < 50 {
			t.Errorf("sticky: %v", per)
		}
		must(t, discovery.Unpublish(t.Context(), k, "/services", "s", "2"))
		synctest.Wait()
		for key, was := range stuck {
			i, err := d.Sticky("s", key)
			must(t, err)
			if i.ID != was && was != "2" {
				t.Fatalf("key %s moved from %s to %s", key, was, i.ID)
			}
		}
		// Two failures in a row, and an instance is left out for a while; if all have failed, none is.
		bad := discovery.Instance{Name: "s", ID: "1"}
		d.Failed(bad)
		if !strings.Contains(round(3), "1") {
			t.Error("left out after one failure")
		}
		d.Worked(bad)
		d.Failed(bad)
		if !strings.Contains(round(3), "1") {
			t.Error("failures are counted although it worked in between")
		}
		d.Failed(bad)
		if got := round(6); strings.Contains(got, "1") || !strings.Contains(got, "0") {
			t.Errorf("after two failures: %s", got)
		}
		time.Sleep(31 * time.Second)
		if !strings.Contains(round(3), "1") {
			t.Error("still left out after 31 s")
		}
		for _, i := range d.Instances("s") {
			d.Failed(i)
			d.Failed(i)
		}
		want(t, "all have failed", strconv.Itoa(len(round(3))), "3")
	})
}

func TestDubboProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, s := keep(t, srv, "a"), srv.Session(t, "s")
		for _, path := range []string{
			"/services/com.x.Orders/providers/dubbo%3A%2F%2F10.0.0.9%3A20880%2Fcom.x.Orders%3Fapplication%3Dshop",
			"/services/com.x.Orders/consumers/consumer%3A%2F%2F10.0.0.1%2Fcom.x.Orders",
			"/services/com.x.Orders/providers/%zz",
		} {
			_, err := s.Put(t.Context(), path, nil, nil)
			must(t, err)
		}
		d := open(t, k, discovery.Options{Layout: discovery.Dubbo})
		i, err := d.RoundRobin("com.x.Orders")
		want(t, "provider", fmt.Sprint(hostPort(i), " ", i.ID, err), "10.0.0.9:20880 dubbo://10.0.0.9:20880/com.x.Orders?application=shop<nil>")
		want(t, "malformed", strconv.Itoa(len(d.Malformed())), "1")
	})
}

func TestTransportAndDial(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	k := keep(t, srv, "a")
	var ports []int
	for n := range 2 {
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%d %s %s%s", n, r.Host, r.URL.Path, body)
		}))
		t.Cleanup(hs.Close)
		ports = append(ports, hs.Listener.Addr().(*net.TCPAddr).Port)
	}
	// Nothing listens at the client's end of a connection, and no other process gets its port.
	dead, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(ports[0]))
	must(t, err)
	defer dead.Close()
	ports = append(ports, dead.LocalAddr().(*net.TCPAddr).Port)
	for n, port := range ports {
		must(t, discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "s", ID: strconv.Itoa(n), Address: "127.0.0.1", Port: port}, discovery.RegisterOptions{}))
	}
	d := open(t, k, discovery.Options{})
	hc := &http.Client{Transport: d.Transport(nil)}
	var got []string
	for range 6 {
		resp, err := hc.Post("http://s/path", "text/plain", strings.NewReader("+body"))
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		got = append(got, string(body))
	}
	want(t, "answers", strings.Join(got, ", "), "0 s /path+body, 1 s /path+body, 0 s /path+body, 1 s /path+body, 0 s /path+body, 1 s /path+body")
	_, err = hc.Get("http://none/")
	var none *discovery.NoInstanceError
	if !errors.As(err, &none) {
		t.Errorf("a service that is not there: %v", err)
	}
	// A port behind the name is ignored: the instances have theirs.
	resp, err := hc.Get("http://s:9999/")
	must(t, err)
	resp.Body.Close()
	for _, name := range []string{"s", "s:80"} {
		conn, err := d.Dial(t.Context(), "tcp", name, nil)
		must(t, err)
		conn.Close()
	}
	direct := &http.Transport{DialContext: d.DialContext}
	defer direct.CloseIdleConnections()
	resp, err = (&http.Client{Transport: direct}).Get("http://s/")
	must(t, err)
	resp.Body.Close()
	must(t, discovery.Unpublish(t.Context(), k, "/services", "s", "0"))
	must(t, discovery.Unpublish(t.Context(), k, "/services", "s", "1"))
	_, err = d.WaitFor(t.Context(), "s", func(all []discovery.Instance) bool { return len(all) == 1 })
	must(t, err)
	_, err = d.Dial(t.Context(), "tcp", "s", nil)
	if err == nil || !strings.Contains(err.Error(), "instance 2 of s at 127.0.0.1:") {
		t.Errorf("no instance answers: %v", err)
	}
}

func BenchmarkResolve(b *testing.B) {
	srv := zktest.New(b, zktest.Options{})
	k := keep(b, srv, "a")
	publish(b, k, "s", 10)
	d := open(b, k, discovery.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.RoundRobin("s"); err != nil {
			b.Fatal(err)
		}
	}
}

// Errors name what was done and the path, also when the Keeper is closed.
func TestErrorsOfAClosedKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, zktest.New(t, zktest.Options{}), "a")
		d := open(t, k, discovery.Options{})
		must(t, k.Close(t.Context()))
		_, err := discovery.Open(t.Context(), k, "/services", discovery.Options{})
		for prefix, err := range map[string]error{
			"discovery /services: ":      err,
			"publish /services/db/1: ":   discovery.Publish(t.Context(), k, "/services", discovery.Instance{Name: "db", ID: "1", Address: "h"}, discovery.RegisterOptions{}),
			"unpublish /services/db/1: ": discovery.Unpublish(t.Context(), k, "/services", "db", "1"),
		} {
			if !errors.Is(err, zk.ErrClosed) || !strings.HasPrefix(err.Error(), prefix) {
				t.Errorf("%v, want %s", err, prefix)
			}
		}
		<-d.Done()
		_, err = d.WaitFor(t.Context(), "db", func([]discovery.Instance) bool { return false })
		want(t, "WaitFor", fmt.Sprint(err), d.Err().Error())
	})
}
