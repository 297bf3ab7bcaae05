package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/fence"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Readers hold the lock together, and a writer alone. A writer that has written goes on reading without letting another writer in.
func ExampleRWMutex() {
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
	m, err := lock.NewRWMutex(s, "/locks/catalogue", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	writer, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = m.TryRLock(ctx)
	fmt.Println("while it is written, reading is refused:", errors.Is(err, lock.ErrBusy))

	if err := writer.Downgrade(ctx); err != nil {
		log.Fatal(err)
	}
	reader, err := m.TryRLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("both read now")
	if err := errors.Join(reader.Release(ctx), writer.Release(ctx)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// while it is written, reading is refused: true
	// both read now
}

// Up to two jobs run at a time, in the order in which they asked.
func ExampleSemaphore() {
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
	jobs, err := lock.NewSemaphore(s, "/limits/jobs", 2, lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	both, err := jobs.AcquireN(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	_, err = jobs.TryAcquire(ctx)
	fmt.Println("a third permit is refused:", errors.Is(err, lock.ErrBusy))
	if err := both.Release(ctx); err != nil {
		log.Fatal(err)
	}
	err = jobs.Do(ctx, func(context.Context) error {
		fmt.Println("one job runs")
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// a third permit is refused: true
	// one job runs
	// error: <nil>
}

// A lock that is rarely wanted by many needs no queue: one znode at the path itself is the lock.
func ExampleUnfair() {
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
	u, err := lock.NewUnfair(s, "/locks/setup", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	h, err := u.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the znode is the lock:", h.Node() == u.Path())
	if err := h.Release(ctx); err != nil {
		log.Fatal(err)
	}
	_, there, err := s.Exists(ctx, u.Path())
	fmt.Println("it is there after the release:", there, err)
	// Output:
	// the znode is the lock: true
	// it is there after the release: false <nil>
}

// A holder that was paused sends its write late. The resource that the lock protects compares tokens, and refuses it.
func ExampleHold_Token() {
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
	m, err := lock.NewMutex(s, "/locks/report", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	var register fence.Memory // of the resource
	write := func(token int64, text string) {
		err := register.Do(ctx, fence.Claim{Resource: m.Path(), Token: token}, func(context.Context) error {
			fmt.Println("written:", text)
			return nil
		})
		if errors.Is(err, fence.ErrStale) {
			fmt.Println("refused:", text)
		}
	}
	paused, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := paused.Release(ctx); err != nil { // as if the session had expired meanwhile
		log.Fatal(err)
	}
	next, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release(ctx)
	write(next.Token(), "the new report")
	write(paused.Token(), "the old report")
	// Output:
	// written: the new report
	// refused: the old report
}

// Release gives back a lock that was taken by hand. Its error says whether the znode is known to be gone.
func ExampleHold_Release() {
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
	m, err := lock.NewMutex(s, "/locks/backup", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	h, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("time left for work that cannot be stopped:", h.Remaining() > 0)
	switch err := h.Release(ctx); {
	case errors.Is(err, lock.ErrLost):
		fmt.Println("another may have worked meanwhile")
	case errors.Is(err, lock.ErrReleasePending):
		fmt.Println("the lock is free as soon as a server can be reached, or when the session ends")
	case err == nil:
		fmt.Println("released")
	}
	// Output:
	// time left for work that cannot be stopped: true
	// released
}
