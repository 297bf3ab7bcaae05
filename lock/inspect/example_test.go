package inspect_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A program watches a lock, asks its holder to give up, and sees it go. The holder decides for itself when.
func ExampleWatch() {
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
	m, err := lock.NewMutex(s, "/locks/cache", lock.Options{Label: "warm-up"})
	if err != nil {
		log.Fatal(err)
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		<-hold.Revoked() // between two pieces of work, say
		hold.Release(ctx)
	}()

	for snap, err := range inspect.Watch(ctx, s, "/locks/cache") {
		if err != nil {
			log.Fatal(err)
		}
		holders := snap.Holders()
		if len(holders) == 0 {
			fmt.Println("free")
			break
		}
		if c := holders[0]; !c.Revoked {
			fmt.Println("held by the", c.Owner.Label)
			if _, err := inspect.Revoke(ctx, s, c); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// held by the warm-up
	// free
}
