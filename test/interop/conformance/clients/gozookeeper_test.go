package clients

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// Every call of go-zookeeper, its lock, and its watches over a lost connection.
func TestGoZookeeper(t *testing.T) {
	tidy := replacer(`Ctime:[1-9][0-9]*`, "Ctime:now", `Mtime:[1-9][0-9]*`, "Mtime:now", `EphemeralOwner:[1-9][0-9]*`, "EphemeralOwner:session")
	said := sameOnBoth(t, tidy, goZookeeper)
	mustSay(t, said, "create-protected: true <nil>", "multi-failed: zk: API error", "get-secret: zk: not authenticated", "lock: 2 at most 1")
}

func goZookeeper(addr string) (string, error) {
	var b strings.Builder
	say := func(what string, values ...any) {
		fmt.Fprintf(&b, "%s:", what)
		for _, v := range values {
			if s, ok := v.(*zk.Stat); ok && s != nil {
				v = fmt.Sprintf("%+v", *s)
			}
			fmt.Fprintf(&b, " %v", v)
		}
		b.WriteString("\n")
	}
	c, err := dialGo(addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	open := zk.WorldACL(zk.PermAll)
	create := func(what, path string, data []byte, flags int32, acl []zk.ACL) {
		p, err := c.Create(path, data, flags, acl)
		say(what, p, err)
	}
	create("create", "/a", []byte("data"), 0, open)
	create("create-again", "/a", nil, 0, open)
	create("create-null", "/null", nil, 0, open)
	create("create-ephemeral", "/a/e", []byte{}, zk.FlagEphemeral, open)
	create("create-sequence", "/a/s-", nil, zk.FlagSequence, open)
	create("create-both", "/a/es-", nil, zk.FlagEphemeral|zk.FlagSequence, open)
	create("create-orphan", "/none/x", nil, 0, open)
	create("create-below-ephemeral", "/a/e/x", nil, 0, open)
	create("create-no-acl", "/x", nil, 0, nil)
	p, err := c.CreateContainer("/c", nil, zk.FlagTTL, open)
	say("container", p, err)
	p, err = c.CreateTTL("/ttl", nil, zk.FlagTTL|zk.FlagEphemeral, open, time.Hour)
	say("ttl", p, err)
	p, err = c.CreateProtectedEphemeralSequential("/a/p-", nil, open)
	say("create-protected", strings.HasPrefix(p, "/a/_c_") && strings.HasSuffix(p, "-p-0000000003"), err)
	say("delete", c.Delete(p, -1), c.Delete("/a", -1), c.Delete("/none", -1), c.Delete("/a/e", 7))

	data, st, err := c.Get("/a")
	say("get", string(data), st, err)
	data, st, err = c.Get("/null")
	say("get-null", data == nil, st, err)
	_, _, err = c.Get("/none")
	say("get-none", err)
	st, err = c.Set("/a", []byte("more"), 0)
	say("set", st, err)
	_, err = c.Set("/a", []byte("more"), 0)
	say("set-old", err)
	ok, st, err := c.Exists("/a/e")
	say("exists", ok, st, err)
	ok, _, err = c.Exists("/none")
	say("exists-none", ok, err)
	names, st, err := c.Children("/a")
	slices.Sort(names)
	say("children", names, st, err)
	acl, st, err := c.GetACL("/a")
	say("acl", acl, st, err)
	p, err = c.Sync("/a")
	say("sync", p, err)

	say("auth", c.AddAuth("digest", []byte("bob:pw")))
	create("create-secret", "/secret", []byte("s"), 0, zk.AuthACL(zk.PermAll))
	acl, _, err = c.GetACL("/secret")
	say("acl-secret", acl, err)
	other, err := dialGo(addr)
	if err != nil {
		return b.String(), err
	}
	_, _, err = other.Get("/secret")
	say("get-secret", err)
	_, err = other.SetACL("/secret", open, -1)
	say("set-acl", err)
	st, err = c.SetACL("/secret", open, 0)
	say("set-acl", st, err)

	res, err := c.Multi(&zk.CreateRequest{Path: "/m", Acl: open}, &zk.SetDataRequest{Path: "/m", Data: []byte("x"), Version: 0},
		&zk.CheckVersionRequest{Path: "/m", Version: 1}, &zk.CreateRequest{Path: "/m/x", Acl: open}, &zk.DeleteRequest{Path: "/m/x", Version: -1})
	for _, r := range res {
		say("multi", r.String, r.Stat, r.Error)
	}
	say("multi", err)
	res, err = c.Multi(&zk.DeleteRequest{Path: "/m", Version: -1}, &zk.CheckVersionRequest{Path: "/m", Version: 1})
	for _, r := range res {
		say("multi", r.Error)
	}
	say("multi-failed", "zk: API error", err != nil)

	_, _, data1, _ := c.GetW("/a")
	_, _, kids, _ := c.ChildrenW("/a")
	_, _, gone, _ := c.ExistsW("/later")
	other.Set("/a", nil, -1)
	other.Create("/a/new", nil, 0, open)
	other.Create("/later", nil, 0, open)
	for _, events := range []<-chan zk.Event{data1, kids, gone} {
		ev := <-events
		say("event", ev.Type, ev.State, ev.Path)
	}
	_, err = c.IncrementalReconfig([]string{"server.2=localhost:1:2;3"}, nil, -1)
	say("reconfig", err)

	_, _, gone, _ = c.ExistsW("/owned")
	other.Create("/owned", nil, zk.FlagEphemeral, open)
	say("event", (<-gone).Type)
	_, _, gone, _ = c.ExistsW("/owned")
	other.Close()
	say("event", (<-gone).Type)
	stats, ok := zk.FLWSrvr([]string{addr}, answerTimeout)
	say("srvr", ok, stats[0].Mode, stats[0].NodeCount)
	say("ruok", zk.FLWRuok([]string{addr}, answerTimeout))
	n, most, err := goLocks(addr)
	say("lock", n, "at most", most, err)
	return b.String(), nil
}

// goLocks has two clients lock and unlock some times and returns how many did, and how many held the
// lock at one time at most.
func goLocks(addr string) (clients, most int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	inside := 0
	for range 2 {
		c, derr := dialGo(addr)
		if derr != nil {
			return 0, 0, derr
		}
		defer c.Close()
		wg.Go(func() {
			l := zk.NewLock(c, "/lock", zk.WorldACL(zk.PermAll))
			for range 20 {
				lerr := l.Lock()
				mu.Lock()
				err = errors.Join(err, lerr)
				inside++
				most = max(most, inside)
				mu.Unlock()
				time.Sleep(time.Millisecond) // room for another to come in
				mu.Lock()
				inside--
				mu.Unlock()
				lerr = l.Unlock()
				mu.Lock()
				err = errors.Join(err, lerr)
				mu.Unlock()
			}
			mu.Lock()
			clients++
			mu.Unlock()
		})
	}
	wg.Wait()
	return clients, most, err
}

// silent is a logger for go-zookeeper.
type silent struct{}

func (silent) Printf(string, ...any) {}

func dialGo(addr string) (*zk.Conn, error) {
	c, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for ev := range events {
		if ev.State == zk.StateHasSession {
			break
		}
	}
	go func() {
		for range events {
		}
	}()
	return c, nil
}
