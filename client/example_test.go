package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// exampleServers starts a server in memory for an example. Programs have the addresses of their ensemble instead.
func exampleServers() (servers string, stop func()) {
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return srv.Addr(), func() { srv.Close() }
}

// A session is opened once and shared by all goroutines of a program.
func ExampleOpen() {
	servers, stop := exampleServers() // "zk1:2181,zk2:2181,zk3:2181"
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // for opening; the session lives on
	defer cancel()
	s, err := client.Open(ctx, servers, client.Options{SessionTimeout: 15 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)

	if _, err := s.Create(ctx, "/greeting", []byte("hello"), zk.Persistent, nil); err != nil {
		log.Fatal(err)
	}
	data, stat, err := s.Get(ctx, "/greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, version %d, session timeout %v\n", data, stat.Version, s.Timeout())
	// Output: hello, version 0, session timeout 15s
}

// A write whose answer was lost may have been carried out. MaybeApplied says so.
func ExampleMaybeApplied() {
	servers, stop := exampleServers()
	defer stop()
	ctx := context.Background()
	s, err := client.Open(ctx, servers, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)

	_, err = s.Set(ctx, "/config", []byte("new"), zk.AnyVersion)
	switch {
	case client.MaybeApplied(err):
		fmt.Println("look before writing again")
	case errors.Is(err, zk.ErrNoNode):
		fmt.Println("certainly not done:", err)
	}
	// Output: certainly not done: set /config: no such znode
}

// A watch reports one change. The read that sets it and the watch leave no gap between them.
func ExampleSession_WatchGet() {
	servers, stop := exampleServers()
	defer stop()
	ctx := context.Background()
	s, err := client.Open(ctx, servers, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	if _, err := s.Create(ctx, "/flag", []byte("off"), zk.Persistent, nil); err != nil {
		log.Fatal(err)
	}

	data, _, changed, err := s.WatchGet(ctx, "/flag")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("it is %s\n", data)
	if _, err := s.Set(ctx, "/flag", []byte("on"), zk.AnyVersion); err != nil {
		log.Fatal(err)
	}
	<-changed.Done()
	if data, _, err = s.Get(ctx, "/flag"); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("it is %s\n", data)
	// Output:
	// it is off
	// it is on
}

// Requests of a pipeline leave in one write and cost one round trip.
func ExampleSession_Pipeline() {
	servers, stop := exampleServers()
	defer stop()
	ctx := context.Background()
	s, err := client.Open(ctx, servers, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)

	p := s.Pipeline()
	created := p.Create("/queue", nil, zk.Persistent, nil)
	first := p.Create("/queue/item-", nil, zk.PersistentSequential, nil)
	listed := p.Children("/queue")
	p.Send(ctx)
	if _, err := created.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	item, err := first.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	listing, err := listed.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(item.Path, listing.Names)
	// Output: /queue/item-0000000000 [item-0000000000]
}

// A transaction does all of its operations or none.
func ExampleSession_Multi() {
	servers, stop := exampleServers()
	defer stop()
	ctx := context.Background()
	s, err := client.Open(ctx, servers, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	if _, err := s.Create(ctx, "/old", nil, zk.Persistent, nil); err != nil {
		log.Fatal(err)
	}

	_, err = s.Multi(ctx, client.OpDelete("/old", zk.AnyVersion), client.OpCreate("/new", nil, zk.Persistent, nil))
	fmt.Println("moved:", err)
	_, err = s.Multi(ctx, client.OpCheck("/new", 7), client.OpDelete("/new", zk.AnyVersion))
	fmt.Println(errors.Is(err, zk.ErrBadVersion))
	_, there, err := s.Exists(ctx, "/new")
	fmt.Println("still there:", there, err)
	// Output:
	// moved: <nil>
	// true
	// still there: true <nil>
}
