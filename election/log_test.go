package election_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The log of a candidate that does not lead any more says what ended its term.
func TestRunLogsWhyItCampaignsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, srv *zktest.Server) {
		var log bytes.Buffer // read while Run waits
		said := func(why string) {
			t.Helper()
			synctest.Wait()
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "campaigning again") && strings.Contains(line, path) && strings.Contains(line, why) {
					return
				}
			}
			t.Errorf("the log does not say that it campaigns again because of %q:\n%s", why, &log)
		}
		k := srv.Keeper(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		opt := election.Options{Lock: lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		done := make(chan error, 1)
		go func() {
			done <- election.Run(ctx, k, path, opt, func(ctx context.Context, _ *election.Term) error {
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(15 * time.Second)
		srv.Link("a").Expire()
		time.Sleep(time.Second)
		said("lock " + path + " lost")
		cancel()
		<-done
	})
}
