// Command walk takes and gives back one free mutex, and writes which statements that has run into a directory. Built with -cover
// and -covermode=atomic it shows a reader which files a Lock and a Release go through; see walk_test.go.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/coverage"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func main() {
	if err := walk(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func walk(dir string) (err error) {
	ctx := context.Background()
	srv, err := zktest.Start(zktest.Options{})
	if err != nil {
		return err
	}
	defer srv.Close()
	s, err := client.Open(ctx, zktest.Servers, client.Options{Dial: srv.Dial})
	if err != nil {
		return err
	}
	defer func() { err = ending.Join(err, s.Close(ctx)) }()
	m, err := lock.NewMutex(s, "/locks/walk", lock.Options{})
	if err != nil {
		return err
	}
	if err := cycle(ctx, m); err != nil { // makes the directory
		return err
	}
	for { // until the hold has ended before the session's watchdog looks at it
		began := time.Now()
		if err := ending.Join(coverage.ClearCounters(), cycle(ctx, m)); err != nil {
			return err
		}
		if time.Since(began) < quick {
			return ending.Join(coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
		}
	}
}

// quick is less than the age at which a hold is watched.
const quick = 5 * time.Millisecond

func cycle(ctx context.Context, m *lock.Mutex) error {
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return h.Release(ctx)
}
