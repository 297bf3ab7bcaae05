package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/fence"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A service stores what the holders of a lock send. The first holder is slow: its request arrives when
// the lock has passed on, and is refused.
func Example_http() {
	mutex, end := exampleMutex()
	defer end()
	ctx := context.Background()

	// The resource. What it protects is in memory, so its register may be, too.
	store := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := fence.FromContext(r.Context())
		fmt.Println("stored for", c.Resource)
	})
	fenced, err := fence.NewHandler(store, fence.HandlerOptions{Register: &fence.Memory{}})
	if err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewServer(fenced)
	defer srv.Close()

	// Two holders, one after the other, each with a request to send.
	prepare := func() *http.Request {
		hold, err := mutex.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer hold.Release(ctx)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, srv.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := fence.SetHeader(req.Header, mutex.Path(), hold); err != nil {
			log.Fatal(err)
		}
		return req
	}
	first, second := prepare(), prepare()
	for _, req := range []*http.Request{second, first} {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// stored for /locks/report
	// 200 OK
	// 412 Precondition Failed
}

// A write to a database that takes effect only if its writer has not been overtaken: the comparison and
// the write are one transaction. The table is made once, by a migration: see Table.Schema.
func ExampleTable_Do() {
	pay := func(ctx context.Context, db *sql.DB, hold *lock.Hold) error {
		fences, err := fence.NewTable(fence.PostgreSQL, "fences")
		if err != nil {
			return err
		}
		claim := fence.Claim{Resource: "payments", Token: hold.Token()}
		err = fences.Do(hold.Context(), db, claim, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 1 WHERE id = 7")
			return err
		})
		if errors.Is(err, fence.ErrStale) {
			return fmt.Errorf("another process pays by now: %w", err)
		}
		return err
	}
	_ = pay
}

// exampleMutex returns a lock on a server that lives in this process.
func exampleMutex() (m *lock.Mutex, end func()) {
	ctx := context.Background()
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := client.Open(ctx, zktest.Servers, client.Options{Dial: srv.Dial})
	if err != nil {
		log.Fatal(err)
	}
	if m, err = lock.NewMutex(s, "/locks/report", lock.Options{}); err != nil {
		log.Fatal(err)
	}
	return m, func() {
		s.Close(ctx)
		srv.Close()
	}
}
