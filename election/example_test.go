package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// One of several processes leads, and when it goes another does. Run survives expired sessions; in earnest
// Keep takes the list of your servers and no dial function.
func ExampleRun() {
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx, shutDown := context.WithCancel(context.Background())
	defer shutDown()
	k, err := client.Keep(ctx, zktest.Servers, client.Options{Dial: srv.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close(context.Background())

	err = election.Run(ctx, k, "/app/leader", election.Options{ID: "10.0.0.7:8080"}, func(ctx context.Context, t *election.Term) error {
		fmt.Println("leading, fenced by a token:", t.Token() > 0)
		shutDown() // as a signal handler would
		<-ctx.Done()
		fmt.Println("stopping")
		return nil // and only now another can lead
	})
	fmt.Println("shut down:", errors.Is(err, context.Canceled))
	// Output:
	// leading, fenced by a token: true
	// stopping
	// shut down: true
}

// A leader hands over to the next candidate when its work has stopped.
func ExampleTerm_Resign() {
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx := context.Background()
	s, err := client.Open(ctx, zktest.Servers, client.Options{Dial: srv.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	e, err := election.New(s, "/app/leader", election.Options{})
	if err != nil {
		log.Fatal(err)
	}

	first, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	begun := make(chan struct{})
	go first.Work(func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		fmt.Println("the first one stops:", context.Cause(ctx))
		return nil
	})
	<-begun
	if err := first.Resign(ctx); err != nil { // waits for Do
		log.Fatal(err)
	}
	second, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Resign(ctx)
	fmt.Println("the second one leads, the token grows:", second.Token() > first.Token())
	// Output:
	// the first one stops: resigned
	// the second one leads, the token grows: true
}

// A program that wants to know the leader need not be a candidate.
func ExampleElection_Watch() {
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx := context.Background()
	s, err := client.Open(ctx, zktest.Servers, client.Options{Dial: srv.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	candidate, err := election.New(s, "/app/leader", election.Options{ID: "10.0.0.7:8080"})
	if err != nil {
		log.Fatal(err)
	}
	watcher, err := election.New(s, "/app/leader", election.Options{})
	if err != nil {
		log.Fatal(err)
	}

	var term *election.Term
	for leader, err := range watcher.Watch(ctx) {
		switch {
		case err != nil:
			log.Fatal(err)
		case leader.Node != "":
			fmt.Println("leader:", leader.ID)
			if err := term.Resign(ctx); err != nil {
				log.Fatal(err)
			}
			continue
		}
		fmt.Println("no leader")
		if term != nil {
			return
		}
		if term, err = candidate.Campaign(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// no leader
	// leader: 10.0.0.7:8080
	// no leader
}
