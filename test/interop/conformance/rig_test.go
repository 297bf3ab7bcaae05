package conformance

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/ours"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/script"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

const (
	superUser = "super:secret"
	// sessionTimeoutMax is long, so that no session of a case expires during it on a slow machine.
	sessionTimeoutMax = 10 * time.Minute
	// patience is how long a test waits for what must happen on a busy machine.
	patience = 30 * time.Second
)

// settings say how both servers of a pair are to be run.
type settings struct {
	extended bool   // znodes may have a time to live
	reaping  bool   // what is to go by itself goes at once; otherwise never, because it would take zxids
	reconfig bool   // reconfigEnabled is set
	seed     string // a data directory to begin with a copy of
}

// reapInterval is how often reaping servers look.
const reapInterval = 100 * time.Millisecond

// start starts Apache ZooKeeper and our server with the same settings and returns their players, in
// this order.
func start(t *testing.T, s settings) [2]*script.Player {
	t.Helper()
	reap, dir := time.Hour, t.TempDir()
	if s.reaping {
		reap = reapInterval
	}
	if s.seed != "" {
		if err := os.CopyFS(dir, os.DirFS(s.seed)); err != nil {
			t.Fatal(err)
		}
	}
	a := apache.Start(t, apache.Options{
		Tick: ours.Tick,
		Seed: s.seed,
		Config: map[string]string{
			"maxSessionTimeout": fmt.Sprint(sessionTimeoutMax.Milliseconds()), "reconfigEnabled": fmt.Sprint(s.reconfig),
		},
		Properties: map[string]string{
			"zookeeper.DigestAuthenticationProvider.superDigest": zk.DigestID(superUser),
			"zookeeper.extendedTypesEnabled":                     fmt.Sprint(s.extended),
			"znode.container.checkIntervalMs":                    fmt.Sprint(reap.Milliseconds()),
		},
	})
	o := ours.Start(t, server.Options{
		DataDir: dir, MaxSessionTimeout: sessionTimeoutMax, SuperDigest: zk.DigestID(superUser),
		ExtendedTypes: s.extended, ReapInterval: reap, ReconfigEnabled: s.reconfig,
	})
	var players [2]*script.Player
	for i, addr := range []string{a.Addr(), o.Addr()} {
		p, err := script.NewPlayer(addr, superUser)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		players[i] = p
	}
	return players
}
