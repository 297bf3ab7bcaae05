package fencing

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/fence"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

// workerVariable is the environment variable that makes this test binary a worker: a process that takes
// a lock and writes under it, a step for each line on stdin:
//
//	hold          takes the lock, looks at its hold for the last time: "held TOKEN"
//	write VALUE   writes in one transaction that checks the token: "written" or "stale"
//	begin VALUE   the same, but does not commit: "begun" or "stale"
//	commit        commits: "committed" or "error …"
const workerVariable = "LOCKKEEPER_FENCING_WORKER"

const (
	resource = "/jobs/nightly"
	// sessionTimeout is short, because the tests wait until a session has expired, and longer than a busy machine keeps a worker that
	// lives from the processor.
	sessionTimeout = 6 * time.Second
)

// A worker is what its process has.
type worker struct {
	db     *sql.DB
	fences *fence.Table
	mutex  *lock.Mutex
	token  int64
	open   *sql.Tx // begun and not committed
}

// work is the main function of a worker; its arguments are server list, driver and DSN.
func work(args []string) error {
	ctx := context.Background()
	s, err := client.Open(ctx, args[0], client.Options{SessionTimeout: sessionTimeout})
	if err != nil {
		return err
	}
	w := &worker{}
	if w.mutex, err = lock.NewMutex(s, resource, lock.Options{}); err != nil {
		return err
	}
	if w.fences, err = newTable(args[1]); err != nil {
		return err
	}
	if w.db, err = sql.Open(args[1], args[2]); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := w.obey(ctx, strings.Fields(lines.Text()))
		if errors.Is(err, fence.ErrStale) {
			answer, err = "stale", nil
		}
		if err != nil {
			answer = fmt.Sprint("error ", err)
		}
		fmt.Println(answer)
	}
	return nil
}

func (w *worker) obey(ctx context.Context, f []string) (string, error) {
	switch f[0] {
	case "hold":
		h, err := w.mutex.Lock(ctx)
		if err != nil {
			return "", err
		}
		w.token = h.Token()
		return fmt.Sprint("held ", w.token), h.Cause()
	case "write":
		return "written", w.fences.Do(ctx, w.db, fence.Claim{Resource: resource, Token: w.token}, func(tx *sql.Tx) error {
			return set(ctx, tx, f[1])
		})
	case "begin":
		var err error
		if w.open, err = w.db.BeginTx(ctx, nil); err != nil {
			return "", err
		}
		if err := w.fences.Check(ctx, w.open, fence.Claim{Resource: resource, Token: w.token}); err != nil {
			return "", errors.Join(err, w.open.Rollback())
		}
		return "begun", set(ctx, w.open, f[1])
	case "commit":
		return "committed", w.open.Commit()
	}
	return "", fmt.Errorf("no such command: %q", f)
}

func set(ctx context.Context, tx *sql.Tx, value string) error {
	_, err := tx.ExecContext(ctx, "UPDATE protected SET value = $1", value)
	return err
}

// A process is a worker as its test sees it.
type process struct {
	*proc.Talker
	t *testing.T
}

// startWorker runs a worker that lives no longer than the test.
func startWorker(t *testing.T, servers string, db *database) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, servers, db.driver, db.dsn)
	cmd.Env = append(os.Environ(), workerVariable+"=1")
	cmd.Stderr = os.Stderr
	return process{proc.Talk(t, "worker", cmd), t}
}

func (w process) expect(line, want string) {
	w.t.Helper()
	w.Send("%s", line)
	if a := w.Answer(); a != want {
		w.t.Fatalf("%q is answered with %q, want %q", line, a, want)
	}
}

// hold takes the lock, after its holder.
func (w process) hold() int64 {
	w.t.Helper()
	w.Send("hold")
	token, err := strconv.ParseInt(w.Expect("held"), 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}
