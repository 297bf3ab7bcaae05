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

// Money goes from one account to another while a report is not being made: two locks and the read side of a
// third, all or none, in whatever order they are named.
func ExampleNewAll() {
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

	account := func(name string) *lock.Mutex {
		m, err := lock.NewMutex(s, "/accounts/"+name, lock.Options{Reentrant: true})
		if err != nil {
			log.Fatal(err)
		}
		return m
	}
	report, err := lock.NewRWMutex(s, "/report", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	all, err := lock.NewAll(report.Reader(), account("zoe"), account("adam"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("taken in the order", all.Paths())

	holds, err := all.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = account("zoe").TryLock(ctx)
	fmt.Println("zoe's is busy:", errors.Is(err, lock.ErrBusy))
	again, err := account("zoe").Lock(holds.Context())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("but not for us:", again.Token() == holds.Tokens()["/accounts/zoe"])
	if err := errors.Join(again.Release(ctx), holds.Release(ctx)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// taken in the order [/accounts/adam /accounts/zoe /report]
	// zoe's is busy: true
	// but not for us: true
}
