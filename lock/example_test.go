package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A function runs under a lock, on a context that ends when the lock is lost. In earnest, client.Open
// takes the list of your servers and no dial function.
func ExampleMutex_Do() {
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
	m, err := lock.NewMutex(s, "/locks/nightly", lock.Options{Label: "nightly job"})
	if err != nil {
		log.Fatal(err)
	}
	err = m.Do(ctx, func(ctx context.Context) error {
		fmt.Println("working, lost:", ctx.Err() != nil)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// working, lost: false
	// error: <nil>
}

// A Keeper opens another session when one has expired. Its Run calls the function again then, so that the work begins
// again under another hold.
func ExampleMutex_Do_keeper() {
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	ctx := context.Background()

	keeper, err := client.Keep(ctx, zktest.Servers, client.Options{Dial: srv.Dial})
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Close(ctx)
	attempts := 0
	err = keeper.Run(ctx, func(ctx context.Context, s *client.Session) error {
		m, err := lock.NewMutex(s, "/locks/nightly", lock.Options{})
		if err != nil {
			return err
		}
		return m.Do(ctx, func(ctx context.Context) error {
			attempts++
			if attempts == 1 {
				srv.Link("").Expire() // as if this process had been cut off
				<-ctx.Done()
				return context.Cause(ctx)
			}
			fmt.Println("done under hold", attempts)
			return nil
		})
	})
	fmt.Println("error:", err)
	// Output:
	// done under hold 2
	// error: <nil>
}

// A hold that outlives a function is released by hand. An error of a busy lock names the holder, and
// tokens grow from holder to holder.
func ExampleMutex_TryLock() {
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
	m, err := lock.NewMutex(s, "/locks/migration", lock.Options{Label: "migration"})
	if err != nil {
		log.Fatal(err)
	}

	first, err := m.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = m.TryLock(ctx)
	var busy *lock.BusyError
	if errors.As(err, &busy) {
		fmt.Println("busy with the", busy.Holder.Owner.Label)
	}
	if err := first.Release(ctx); err != nil {
		log.Fatal(err)
	}
	second, err := m.TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer second.Release(ctx)
	fmt.Println("the token grows:", second.Token() > first.Token())
	// Output:
	// busy with the migration
	// the token grows: true
}
