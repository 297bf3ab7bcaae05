package conformance

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/ours"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/script"
	"github.com/lockkeeper/lockkeeper/zk"
)

var apacheForFiles = apache.Options{
	Tick: ours.Tick,
	Properties: map[string]string{
		"zookeeper.DigestAuthenticationProvider.superDigest": zk.DigestID(superUser),
		"zookeeper.extendedTypesEnabled":                     "true",
		"znode.container.checkIntervalMs":                    "3600000",
	},
}

// ourSnapCount makes our server write some snapshots while it is at work.
const ourSnapCount = 60

func startOurs(t *testing.T, dir string, lastRun bool) *ours.Server {
	t.Helper()
	return ours.Start(t, server.Options{
		DataDir: dir, SuperDigest: zk.DigestID(superUser), ExtendedTypes: true, ReapInterval: time.Hour, SnapCount: ourSnapCount,
		ApachePasswords: lastRun,
	})
}

// A journey is a history that goes on from server to server, on the same files.
type journey struct {
	t      *testing.T
	seed   uint64
	leg    uint64
	round  *script.Round
	player *script.Player
	dump   []string // at the end of the last leg
}

// arrive looks at what a server has found in the files: all that was there when the last one
// stopped. Lines that begin with one of except may differ.
func (j *journey) arrive(where, addr string, except ...string) {
	t := j.t
	t.Helper()
	player, err := script.NewPlayer(addr, superUser)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	t.Cleanup(player.Close)
	j.player = player
	if j.round == nil {
		if j.round, err = player.Begin(); err != nil {
			t.Fatal(err)
		}
		return
	}
	j.round.Move(player)
	dump, err := player.Dump()
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	if diff := firstDifferent(j.dump, dump, except); diff != "" {
		t.Fatalf("seed %d: on %s after leg %d:\n%s", j.seed, where, j.leg, diff)
	}
	t.Logf("%s has found %d znodes", where, len(dump))
}

// travel makes some history on the server of the last arrival, then notes what is there.
func (j *journey) travel(steps int) {
	t := j.t
	t.Helper()
	g := &generator{Rand: rand.New(rand.NewPCG(j.seed, j.leg)), extended: true, alone: true, resumes: j.leg > 0}
	j.leg++
	c := g.makeCase(steps)
	for i := range c.Steps {
		s := &c.Steps[i]
		said, err := j.round.Step(s)
		if err != nil {
			t.Fatalf("seed %d: leg %d: %s: %v", j.seed, j.leg, s.Text, err)
		}
		if name, ok := strings.CutSuffix(s.Text, " connect resume="+s.Conn); ok && !strings.Contains(said, "session "+name+",") {
			t.Fatalf("seed %d: leg %d: %s: %s", j.seed, j.leg, s.Text, said)
		}
	}
	j.round.Leave()
	before, err := j.player.Dump()
	if err != nil {
		t.Fatalf("look at all znodes: %v", err)
	}
	names, err := j.player.NextNames()
	if err != nil {
		t.Fatalf("ask for the next names: %v", err)
	}
	checkNext(t, before, names)
	if j.dump, err = j.player.Dump(); err != nil {
		t.Fatalf("look at all znodes again: %v", err)
	}
}

// checkNext checks that the counters for sequential names are those that the stats say: twice the
// counter is the visible number of changes and the number of children.
func checkNext(t *testing.T, dump, names []string) {
	t.Helper()
	if len(dump) != len(names) {
		t.Fatalf("%d znodes, but %d next names", len(dump), len(names))
	}
	for i, line := range dump {
		path, _, _ := strings.Cut(line, " ")
		var cversion, children int32
		scan(t, line, "Cversion:", &cversion)
		scan(t, line, "NumChildren:", &children)
		want := zk.Join(path, fmt.Sprintf("next-%010d", (cversion+children)/2))
		if names[i] != want && names[i] != path+": none" {
			t.Errorf("next name %s, want %s: %s", names[i], want, line)
		}
	}
}

func scan(t *testing.T, line, field string, into *int32) {
	t.Helper()
	_, text, ok := strings.Cut(line, field)
	if _, err := fmt.Sscan(text, into); !ok || err != nil {
		t.Fatalf("no %s in %s: %v", field, line, err)
	}
}

func firstDifferent(was, is, except []string) string {
	excepted := func(line string) bool {
		for _, e := range except {
			if strings.HasPrefix(line, e+" ") {
				return true
			}
		}
		return false
	}
	for i := range max(len(was), len(is)) {
		a, b := "(end)", "(end)"
		if i < len(was) {
			a = was[i]
		}
		if i < len(is) {
			b = is[i]
		}
		if a != b && !(excepted(a) && excepted(b)) {
			return fmt.Sprintf("was %s\nis  %s", a, b)
		}
	}
	return ""
}

// One history goes from Apache ZooKeeper to our server, back, on to an ensemble, and back again, on
// the same files: every znode, stat, ACL and counter arrives each time, and the sessions go on.
func TestAHistoryGoesFromServerToServer(t *testing.T) {
	const steps = 120
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	j := &journey{t: t, seed: seed}
	first := apache.Start(t, apacheForFiles)
	j.arrive("Apache ZooKeeper", first.Addr())
	j.travel(steps)
	first.Kill()

	second := startOurs(t, first.DataDir(), false)
	j.arrive("our server", second.Addr())
	j.travel(2 * steps)
	second.Stop()

	last := startOurs(t, first.DataDir(), true)
	j.arrive("our server in its last run before Apache ZooKeeper", last.Addr())
	j.travel(steps)
	last.Stop()

	o := apacheForFiles
	o.Seed = first.DataDir()
	third := apache.Start(t, o)
	j.arrive("Apache ZooKeeper", third.Addr())
	wantNoMismatch(t, third)
	j.travel(steps)
	third.Kill()

	fourth := startOurs(t, third.DataDir(), true)
	j.arrive("our server", fourth.Addr())
	j.travel(steps)
	fourth.Stop()

	o.Seed = third.DataDir()
	e := apache.StartEnsemble(t, 3, o)
	for _, s := range e.Servers {
		// An ensemble keeps the names of its members there.
		j.arrive(fmt.Sprintf("server %d of an ensemble", s.ID()), s.Addr(), "/zookeeper/config")
		wantNoMismatch(t, s)
	}
	leader := e.Leader()
	j.arrive("the leader", leader.Addr(), "/zookeeper/config")
	rest := e.KeepAwake() // the players of scripts do not ping, as clients do
	j.travel(steps)
	rest()
	for _, s := range e.Servers {
		s.Kill()
	}

	back := startOurs(t, leader.DataDir(), true)
	j.arrive("our server", back.Addr())
	j.travel(steps)
}

// wantNoMismatch checks that a server has found, behind every transaction in the files, the digest
// that it would have written itself.
func wantNoMismatch(t *testing.T, s *apache.Server) {
	t.Helper()
	out, err := s.FourLetter("mntr")
	if err != nil {
		t.Fatal(err)
	}
	var n float64
	if _, text, ok := strings.Cut(out, "zk_digest_mismatches_count"); ok {
		fmt.Sscan(text, &n)
	} else {
		t.Fatalf("mntr does not tell of digests:\n%s", out)
	}
	if n != 0 {
		t.Errorf("server %d has found %v digests that are wrong", s.ID(), n)
	}
}
