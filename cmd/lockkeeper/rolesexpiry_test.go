//go:build linux

package main

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An expired session takes the member, or the instance, with it, and the next session brings it back. A persistent watch
// sees every creation and deletion below the parent, so a second znode would show.
func TestAMemberAndAnInstanceComeBackAfterAnExpiry(t *testing.T) {
	t.Parallel()
	srv, err := server.Open(server.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	servers := l.Addr().String()
	observer, err := client.Open(t.Context(), servers, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { observer.Close(context.Background()) })
	for parent, command := range map[string][]string{
		groupsPath + "/workers":  {"join", "workers", "--id", "one", "--", "sleep", "1000"},
		servicesPath + "/orders": {"register", "orders", "--id", "one", "--port", "8080", "--", "sleep", "1000"},
	} {
		t.Run(command[0], func(t *testing.T) {
			ctx := t.Context()
			watch, err := observer.AddWatch(ctx, parent, true)
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Close()
			next := func(kind zk.EventType) { // waits for the next event of a child
				t.Helper()
				for {
					ev, err := watch.Next(ctx)
					switch {
					case err != nil:
						t.Fatal(err)
					case ev.Gap || ev.Path == parent:
					case ev.Path != parent+"/one" || ev.Type != kind:
						t.Fatalf("%v of %s, want %v of %s/one", ev.Type, ev.Path, kind, parent)
					default:
						return
					}
				}
			}
			j := newHome(t, serversVariable+"="+servers).start(command...)
			next(zk.NodeCreated)
			for range 3 {
				st, there, err := observer.Exists(ctx, parent+"/one")
				if err != nil || !there {
					t.Fatalf("the znode: %v, %v", there, err)
				}
				if !srv.ExpireSession(st.EphemeralOwner) {
					t.Fatalf("session 0x%x is not there", st.EphemeralOwner)
				}
				next(zk.NodeDeleted)
				next(zk.NodeCreated)
			}
			j.signal(syscall.SIGTERM)
			j.want(128 + int(syscall.SIGTERM))
			next(zk.NodeDeleted)
		})
	}
}
