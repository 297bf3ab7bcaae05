package grpcresolver_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/discovery"
	grpcresolver "github.com/lockkeeper/lockkeeper/discovery/grpc"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const patience = time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve starts a gRPC server and registers it.
func serve(t *testing.T, ctx context.Context, k *client.Keeper, id string) (string, *discovery.Registration) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := grpc.NewServer()
	healthpb.RegisterHealthServer(srv, health.NewServer())
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	r, err := discovery.Register(ctx, k, "/services", discovery.Instance{Name: "orders", ID: id, Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}, discovery.RegisterOptions{})
	must(t, err)
	return l.Addr().String(), r
}

// A connection uses the instances that there are: both, then the one that is left, then none, then a new one.
func TestResolver(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv := zktest.New(t, zktest.Options{})
	k, err := client.Keep(ctx, zktest.Servers, client.Options{Dial: srv.Link("k").Dial})
	must(t, err)
	defer k.Close(context.Background())
	d, err := discovery.Open(ctx, k, "/services", discovery.Options{})
	must(t, err)
	defer d.Close(context.Background())
	conn, err := grpc.NewClient("lockkeeper:///orders:80", grpc.WithResolvers(grpcresolver.New(d)),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	must(t, err)
	defer conn.Close()
	h := healthpb.NewHealthClient(conn)
	ask := func(opts ...grpc.CallOption) (string, error) {
		var from peer.Peer
		_, err := h.Check(ctx, &healthpb.HealthCheckRequest{}, append(opts, grpc.Peer(&from))...)
		if err != nil {
			return "", err
		}
		return from.Addr.String(), nil
	}
	_, err = ask()
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "resolve /services/orders: no instance is registered") {
		t.Errorf("without instances: %v", err)
	}
	// One without a port is passed over, now and in all that follows.
	must(t, discovery.Publish(ctx, k, "/services", discovery.Instance{Name: "orders", ID: "portless", Address: "127.0.0.1"}, discovery.RegisterOptions{}))
	for {
		_, err = ask()
		if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "instance portless of orders has no port") {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("an instance without a port: %v", err)
		}
	}
	// answers waits until exactly these answer, in turn.
	answers := func(what string, want ...string) {
		t.Helper()
		for {
			seen := map[string]int{}
			for range 2 * len(want) {
				addr, err := ask(grpc.WaitForReady(true))
				must(t, err)
				seen[addr]++
			}
			right := len(seen) == len(want)
			for _, addr := range want {
				right = right && seen[addr] == 2
			}
			if right {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: got %v, want %v", what, seen, want)
			}
		}
	}
	a, ra := serve(t, ctx, k, "a")
	answers("one", a)
	b, rb := serve(t, ctx, k, "b")
	answers("two", a, b)
	must(t, ra.Close(ctx))
	answers("the one that is left", b)
	disabled := rb.Instance()
	disabled.Disabled = true
	must(t, rb.Set(ctx, disabled))
	for {
		if _, err := ask(); status.Code(err) == codes.Unavailable {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("a disabled instance still answers")
		}
	}
	must(t, rb.Set(ctx, rb.Instance()))
	answers("enabled again", b)
	must(t, d.Close(ctx))
	answers("after the end of the directory gRPC keeps what it has", b)
}

func TestBadTarget(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Link("k").Dial})
	must(t, err)
	defer k.Close(context.Background())
	d, err := discovery.Open(t.Context(), k, "/services", discovery.Options{})
	must(t, err)
	defer d.Close(context.Background())
	for _, target := range []string{"lockkeeper:///", "lockkeeper:///a/b"} {
		conn, err := grpc.NewClient(target, grpc.WithResolvers(grpcresolver.New(d)), grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(t, err)
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil || !strings.Contains(err.Error(), "is empty or contains a slash") {
			t.Errorf("%s: %v", target, err)
		}
		conn.Close()
	}
}
