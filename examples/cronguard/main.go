// Command cronguard is a job that cron starts on every host at the same minute, and that must run on one of
// them. The second host finds the lock busy, says which process has it, and is done. The job has to take longer than the
// hosts' clocks differ: a host that comes when the first is done finds the lock free.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := guard(ctx); err != nil {
		log.Fatal("cronguard: ", err)
	}
}

func guard(ctx context.Context) error {
	// While no server can be reached we fail, and do not pile up until one can. What we hold outlasts this limit.
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s, err := client.Open(asking, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	m, err := lock.NewMutex(s, "/examples/nightly-report", lock.Options{Label: "nightly report"})
	if err != nil {
		return err
	}
	hold, err := m.TryLock(asking)
	var busy *lock.BusyError
	if errors.As(err, &busy) {
		fmt.Println("runs elsewhere:", busy.Holder.Describe())
		return nil
	}
	if err != nil {
		return err
	}
	return hold.Do(ctx, report) // whose context ends when the lock is lost, and when we are told to stop
}

// report is the job.
func report(ctx context.Context) error {
	for _, chapter := range []string{"sales", "stock", "returns"} {
		select {
		case <-time.After(200 * time.Millisecond):
			fmt.Println("wrote", chapter)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
