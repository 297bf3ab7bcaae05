// Command cron (cron HOST JOB…) is one host of a cluster that does jobs at intervals. Each job is at home on one host, and
// each run that is due is begun once at most, also when hosts come, go and die.
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
	"github.com/lockkeeper/lockkeeper/counter"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/partition"
)

const interval = time.Second // between two runs of a job

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: cron HOST JOB…")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k, err := client.Keep(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		log.Fatal("cron: ", err)
	}
	defer k.Close(context.Background())
	keep := func(ctx context.Context, job string, _ *lock.Hold) error {
		last, err := counter.New(k, "/examples/cron/last/"+job, counter.Options{})
		if err != nil {
			return err
		}
		for due := time.Now(); ctx.Err() == nil; {
			due = due.Truncate(interval).Add(interval)
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
			}
			if _, err := last.Update(ctx, later(due)); err == nil {
				fmt.Println(job, due.UnixNano()) // the job is done here
			}
		}
		return nil
	}
	p, err := partition.Join(ctx, k, "/examples/cron", os.Args[1], os.Args[2:], keep, partition.Options{})
	if err != nil {
		log.Fatal("cron: ", err)
	}
	select {
	case <-ctx.Done():
	case <-p.Done(): // as when the servers refuse the host
		log.Fatal("cron: ", p.Err())
	}
	p.Close(context.Background()) // lets the jobs end, and the other hosts have them
}

// later notes a run, unless it has been begun: by a host whose lock was lost, or whose clock is ahead.
func later(due time.Time) func(int64) (int64, error) {
	return func(last int64) (int64, error) {
		if last >= due.UnixNano() {
			return 0, errors.New("it has been begun")
		}
		return due.UnixNano(), nil
	}
}
