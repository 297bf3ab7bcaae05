// Package locks runs the suite of the locks against Apache ZooKeeper: one server, and three.
package locks

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/locksuite"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

const (
	tick    = 200 * time.Millisecond
	timeout = 4 * time.Second
)

func backend(servers string) locksuite.Backend {
	return locksuite.Backend{
		SideBySide: true,
		Bubble:     func(t *testing.T, f func(*testing.T)) { f(t) },
		Start: func(*testing.T) locksuite.Ensemble {
			return locksuite.Ensemble{
				Servers: servers, Tick: tick, Timeout: timeout,
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, address)
				},
			}
		},
	}
}

// All tests of both mostly wait, so they run beside each other.

func TestOneServer(t *testing.T) {
	t.Parallel()
	locksuite.Run(t, backend(apache.Start(t, apache.Options{Tick: tick}).Addr()))
}

func TestThreeServers(t *testing.T) {
	t.Parallel()
	locksuite.Run(t, backend(apache.StartEnsemble(t, 3, apache.Options{Tick: tick}).Connect()))
}
