package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Keeper.Run repeats work whose lock was lost with its session, however soon the work has returned: a lock is lost before its
// session is known to be over. Work whose lock was lost while the session lives is not repeated.
func TestAKeeperRepeatsWorkWhoseSessionIsOver(t *testing.T) {
	const timeout = 4 * time.Second
	for name, tt := range map[string]struct {
		fault func(t *testing.T, srv *zktest.Server, l *zktest.Link)
		runs  int
	}{
		"expired": {func(_ *testing.T, _ *zktest.Server, l *zktest.Link) { l.Expire() }, 2},
		"cut off": {func(_ *testing.T, _ *zktest.Server, l *zktest.Link) {
			l.Refuse()
			time.Sleep(10 * time.Second)
			l.Heal()
		}, 2},
		"frozen": {func(_ *testing.T, _ *zktest.Server, l *zktest.Link) {
			l.Freeze()
			time.Sleep(10 * time.Second)
			l.Heal()
		}, 2},
		"frozen, alive": {func(_ *testing.T, _ *zktest.Server, l *zktest.Link) {
			l.Freeze()
			time.Sleep(3500 * time.Millisecond)
			l.Heal()
		}, 1},
		"broken": {func(t *testing.T, srv *zktest.Server, _ *zktest.Link) {
			must(t, nil, srv.Session(t, "operator").DeleteAll(context.Background(), "/locks/a"))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				l := srv.Link("ours")
				k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: l.Dial, SessionTimeout: timeout})
				must(t, nil, err)
				defer k.Close(context.Background())
				runs, faulted := 0, make(chan struct{})
				err = k.Run(t.Context(), func(ctx context.Context, s *client.Session) error {
					m, err := lock.NewMutex(s, "/locks/a", lock.Options{})
					must(t, nil, err)
					return m.Do(ctx, func(ctx context.Context) error {
						runs++
						if runs == 2 {
							return nil
						}
						time.Sleep(time.Second)
						go func() {
							defer close(faulted)
							tt.fault(t, srv, l)
						}()
						<-ctx.Done()
						return context.Cause(ctx)
					})
				})
				<-faulted
				if runs != tt.runs || errors.Is(err, lock.ErrLost) != (tt.runs == 1) {
					t.Errorf("%d runs, %v; want %d", runs, err, tt.runs)
				}
			})
		})
	}
}
