package roles

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/sim/drive"
	"github.com/lockkeeper/lockkeeper/test/sim/patch"
)

var teeth = flag.Bool("roles.teeth", false, "whether all mutations are tried, and not only a few")

// A mutation takes one cure out of a package. The scenario has to notice it.
type mutation struct {
	name, scenario string
	seeds          int  // within so many
	short          bool // it is tried by the short form too
	patches        []patch.Patch
}

var mutations = []mutation{
	{name: "a new session reads without a sync", scenario: "cache", seeds: 60, short: true, patches: []patch.Patch{
		{File: "cache/follow.go", Old: "for !f.first() {", New: "for false {"}}},
	{name: "a one-shot watch that has fired is not heeded", scenario: "old-cache", seeds: 20, patches: []patch.Patch{
		{File: "cache/oneshot.go", Old: "		o.f.mark(path, false)\n	})\n", New: "	})\n"}}},
	{name: "a view is published while one-shot watches have fired", scenario: "old-cache", seeds: 3000, patches: []patch.Patch{
		{File: "cache/oneshot.go", Old: "func (o *oneShot) drain() {\n", New: "func (o *oneShot) drain() {\n	return\n"}}},
	{name: "nothing is read again after a gap", scenario: "cache", seeds: 60, patches: []patch.Patch{
		{File: "cache/persistent.go", Old: "	if err == nil {\n		p.f.mark(", New: "	if err == nil && !ev.Gap {\n		p.f.mark("}}},
	{name: "a view is published while events are left", scenario: "cache", seeds: 200, patches: []patch.Patch{
		{File: "cache/follow.go", Old: "for range readRoundsMax {", New: "for range 1 {"}}},
	{name: "a deleted znode stays", scenario: "cache", seeds: 20, patches: []patch.Patch{
		{File: "cache/follow.go", Old: "			if !found[path] {", New: "			if false {"}}},
	{name: "a change is told twice", scenario: "cache", seeds: 60, patches: []patch.Patch{
		{File: "cache/follow.go", Old: "f.c.publish(now, news, conn.Conn)", New: "f.c.publish(now, append(news, news...), conn.Conn)"}}},
	{name: "a bad configuration comes into force", scenario: "cache", seeds: 20, patches: []patch.Patch{
		{File: "config/config.go", Old: "if err := v.safely(func() error { return v.opt.Validate(s.Value) }); err != nil {", New: "if err := v.opt.Validate(s.Value); false {"}}},
	{name: "a member does not notice that its znode is deleted", scenario: "group", seeds: 20, patches: []patch.Patch{
		{File: "internal/presence/presence.go", Old: "	case <-w.Done():\n		return nil\n", New: ""}}},
	{name: "a member does not look for its znode when it leaves", scenario: "group", seeds: 60, short: true, patches: []patch.Patch{
		{File: "internal/presence/presence.go", Old: "err != nil || !there || !p.ours[stat.EphemeralOwner] {", New: "err != nil || !there || there {"}}},
	{name: "a member takes the znode of its last session for its own", scenario: "group", seeds: 60, patches: []patch.Patch{
		{File: "internal/presence/presence.go", Old: "	case stat.EphemeralOwner != s.ID():\n		p.lost", New: "	case false:\n		p.lost"},
		{File: "internal/presence/presence.go", Old: "	case <-w.Done():\n		return nil\n", New: ""}}},
	{name: "an increment without an answer is made again", scenario: "counter", seeds: 60, patches: []patch.Patch{
		{File: "client/lostanswer.go", Old: "unchanged := stat.Version == before.Version\n", New: "unchanged := true\n"}}},
	{name: "an increment without an answer counts as made", scenario: "counter", seeds: 60, patches: []patch.Patch{
		{File: "client/lostanswer.go", Old: "			err = s.wasSet(ctx, path, stat, next, err)\n", New: "			return Node{Data: next}, nil\n"}}},
	{name: "the journal is not asked", scenario: "counter", seeds: 60, patches: []patch.Patch{
		{File: "counter/exact.go", Old: "			if made {", New: "			if made && false {"}}},
	{name: "the look behind a lost increment waits for no transaction", scenario: "counter", seeds: 1500, patches: []patch.Patch{
		{File: "counter/exact.go", Old: "	if err := j.session.AwaitWrites(ctx); err != nil {\n		return 0, false, err\n	}\n", New: ""}}},
	{name: "to be woken is to enter", scenario: "barrier", seeds: 40, patches: []patch.Patch{
		{File: "barrier/double.go", Old: "	err = await(ctx, ready, own)\n", New: "	return true, await(ctx, ready, own)\n"}}},
	{name: "a member leaves alone", scenario: "barrier", seeds: 20, patches: []patch.Patch{
		{File: "barrier/double.go", Old: "		if err := await(ctx, w); err != nil {\n			return err\n		}\n	}\n}", New: "		return await(ctx, w)\n	}\n}"}}},
	{name: "items are worked on without a lock", scenario: "partition", seeds: 40, patches: []patch.Patch{
		{File: "partition/partition.go", Old: `zk.Join(zk.Join(p.path, "locks"), item)`, New: `zk.Join(zk.Join(p.path, "locks-"+p.id), item)`}}},
	{name: "an item that moves is kept", scenario: "partition", seeds: 20, patches: []patch.Patch{
		{File: "partition/partition.go", Old: "				end(errMoved)\n", New: "				_ = end\n"}}},
}

// Each mutation applies to the source, and a few of them, or with -roles.teeth all, are found.
func TestMutations(t *testing.T) {
	root, err := drive.Root()
	must(t, err)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			overlay, err := patch.Overlay(dir, root, "", m.patches)
			must(t, err)
			if !*teeth && !m.short {
				return
			}
			bin := filepath.Join(dir, "mutated")
			if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", bin, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			found := false
			for from := 1; from <= m.seeds && !found; from += 10 {
				cmd := exec.Command(bin, "-test.run=TestSeeds", "-test.timeout=2m", "-roles.only="+m.scenario, fmt.Sprint("-roles.from=", from), "-roles.seeds=10")
				cmd.Env = append(os.Environ(), "GOTRACEBACK=none")
				out, err := cmd.CombinedOutput()
				if err != nil {
					found = true
					line := regexp.MustCompile(m.scenario + `, seed .*`).Find(out)
					if line == nil { // it hangs, or panics
						line, _, _ = bytes.Cut(out, []byte("\n"))
					}
					fmt.Printf("%s: %.200s\n", m.name, line)
				}
			}
			if !found {
				t.Errorf("not noticed within %d seeds of the scenario %s", m.seeds, m.scenario)
			}
		})
	}
}
