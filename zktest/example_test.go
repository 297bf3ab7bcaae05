package zktest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A test says zktest.New(t, …) and leaves out the closing and most of the error handling.
func Example() {
	ctx := context.Background()
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	s, err := srv.Link("worker").Open(ctx, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	s.Create(ctx, "/app", nil, zk.Persistent, nil)
	s.Create(ctx, "/app/leader", []byte("10.0.0.7"), zk.Ephemeral, nil)
	fmt.Print(srv.Tree("/app"))

	srv.Link("worker").Expire()
	<-s.Done()
	fmt.Println("expired:", errors.Is(s.Err(), zk.ErrSessionExpired))
	fmt.Print(srv.Tree("/app"))
	// Output:
	// /app
	// /app/leader = "10.0.0.7" (ephemeral of worker)
	// expired: true
	// /app
}

// Code that makes its own sessions is given a dial function. It may keep its server list: whatever
// address it dials, it arrives here.
func ExampleServer_Dial() {
	ctx := context.Background()
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	s, err := client.Open(ctx, "zk1.example:2181,zk2.example:2181/app", client.Options{Dial: srv.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	_, err = s.Create(ctx, "/config", nil, zk.Persistent, nil)
	fmt.Println(err)
	// Output:
	// create /config: no such znode
}

// Any ZooKeeper client can be pointed at a TCP port, and each at one of its own.
func ExampleServer_Addr() {
	srv, err := zktest.Start(zktest.Options{TickTime: 50 * time.Millisecond}) // real time: keep it short
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()

	for _, addr := range []string{srv.Addr(), srv.Link("other").Addr()} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			log.Fatal(err)
		}
		nc.Close()
	}
	fmt.Println("ports differ:", srv.Addr() != srv.Link("other").Addr())
	// Output:
	// ports differ: true
}

// A client that is cut off goes on where it was, if it comes back in time.
func ExampleLink_Refuse() {
	ctx := context.Background()
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	s, err := srv.Link("worker").Open(ctx, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)

	srv.Link("worker").Refuse()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, _, err = s.Get(short, "/")
	fmt.Println("in vain:", errors.Is(err, context.DeadlineExceeded))

	srv.Link("worker").Heal()
	_, _, err = s.Get(ctx, "/")
	fmt.Println(err)
	// Output:
	// in vain: true
	// <nil>
}

// A write whose answer is lost has happened or it has not. Good code looks.
func ExampleLink_LoseAnswer() {
	ctx := context.Background()
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	s, err := srv.Link("worker").Open(ctx, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)

	srv.Link("worker").LoseAnswer()
	_, err = s.Create(ctx, "/order", nil, zk.Persistent, nil)
	fmt.Println(err)
	fmt.Println("may have happened:", client.MaybeApplied(err))
	_, there, err := s.Exists(ctx, "/order")
	fmt.Println("has happened:", there, err)
	// Output:
	// create /order: connection lost (outcome unknown)
	// may have happened: true
	// has happened: true <nil>
}

// Power fails and comes back: whatever was acknowledged is there, and the lock still held.
func ExampleServer_Restart() {
	ctx := context.Background()
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	s, err := srv.Link("worker").Open(ctx, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	m, err := lock.NewMutex(s, "/locks/nightly", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	srv.Restart()
	_, there, err := s.Exists(ctx, hold.Node())
	fmt.Println("held:", hold.Cause() == nil, "and on the server:", there, err)
	fmt.Println("released:", hold.Release(ctx) == nil)
	fmt.Print(srv.Tree("/locks"))
	// Output:
	// held: true and on the server: true <nil>
	// released: true
	// /locks
	// /locks/nightly (container)
}

// The znodes can be looked at one by one.
func ExampleServer_Tree() {
	ctx := context.Background()
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	s, err := srv.Link("worker").Open(ctx, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	s.Create(ctx, "/a", []byte("one"), zk.Persistent, nil)
	s.Set(ctx, "/a", []byte("two"), -1)

	for _, n := range srv.Tree("/a") {
		fmt.Printf("%s has %q at version %d\n", n.Path, n.Data, n.Stat.Version)
	}
	// Output:
	// /a has "two" at version 1
}
