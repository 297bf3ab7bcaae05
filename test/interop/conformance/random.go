package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/test/interop/conformance/script"
)

// A generator makes up cases: valid and invalid requests over a few names, from a few connections,
// as lines of a script. It keeps away from what is known to differ, the paragraphs below say how;
// scripts are there for that.
//
// Watches: one-shot ones are for some connections, persistent ones for others, and each path is
// watched in one persistent way only, since Apache ZooKeeper 3.8.0 mixes them up. What is watched
// is not asked, since the answer covers all sessions.
//
// Lists: a setACL stands alone. Apache ZooKeeper decides what comes right behind one by the list that
// was there before, unless it is slow to come; we decide it by the new list.
//
// Secrets: a case has either znodes that some sessions may not read, or watches and exists.
type generator struct {
	*rand.Rand
	secrets  bool
	extended bool // allows a time to live
	resumes  bool // begins with the sessions of an earlier case
	alone    bool // for one server: what is known to differ on the wire but not on disk may occur
}

// connections of a case. The first two set one-shot watches, the others persistent ones.
var connections = []string{"a", "b", "p", "q"}

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

// in reports true once in n times.
func (g *generator) in(n int) bool { return g.IntN(n) == 0 }

// makeCase makes up a case of n steps.
func (g *generator) makeCase(n int) script.Case {
	g.secrets = g.in(3)
	c := script.Case{Name: "random"}
	add := func(line string) {
		step, err := script.ParseStep(line)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", line, err))
		}
		step.Line = len(c.Steps) + 1
		c.Steps = append(c.Steps, step)
	}
	for _, name := range connections {
		if g.resumes {
			add(name + " connect resume=" + name)
		} else {
			add(name + " connect")
		}
	}
	shown := map[string][]string{} // credentials, by connection
	authenticate := func(name string, credentials ...string) {
		for _, c := range credentials {
			add(name + " auth digest " + c)
			if !slices.Contains(shown[name], c) {
				shown[name] = append(shown[name], c)
			}
		}
	}
	authenticate("a", "bob:pw")
	authenticate("p", "alice:pw")
	for len(c.Steps) < n {
		name := g.one(connections...)
		switch {
		case g.in(40):
			add(name + " close")
			add(name + " connect")
			delete(shown, name)
		case g.in(40):
			add(name + " drop")
			add(name + " connect resume=" + name)
			authenticate(name, shown[name]...) // our server gives a session to a connection that shows what it has shown
		case g.in(50):
			authenticate(name, g.one("bob:pw", "alice:pw"))
		default:
			calls := make([]string, 1+g.IntN(4))
			for i := range calls {
				calls[i] = g.request(name, len(calls) == 1)
			}
			add(name + " " + strings.Join(calls, " | "))
		}
	}
	for _, name := range connections {
		add(name + " ping") // for the last events
	}
	return c
}

// path returns one that is likely to exist, or that cannot.
func (g *generator) path() string {
	switch {
	case g.in(25):
		return g.one("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "foo", "foo/x", "/x/", "//x", "/x//y", "/x/.", "/..",
			`"/\x00"`, `"/x/\x01"`, `"/\ufff0"`, "/x/s-0000000001", "/x/y/s-0000000000")
	case g.in(3):
		return "/" + g.one("x", "y", "z")
	case g.in(2):
		return "/" + g.one("x", "x", "y") + "/" + g.one("x", "y", "s-0000000000")
	}
	return "/x/" + g.one("x", "y") + "/x"
}

func (g *generator) version() string { return g.one("-1", "-1", "-1", "-1", "0", "0", "1", "2", "-2") }

func (g *generator) data() string { return g.one("d", `""`, "null", "x*300", "other") }

func (g *generator) acl() string {
	switch {
	case g.in(30):
		return g.one("null", "empty", "31:bogus:x", "31:digest:x", "31:auth:,31:bogus:x", "31:super:x")
	case !g.in(4):
		return "open"
	case g.secrets && g.in(2):
		return g.one("31:auth:", "0:world:anyone", "16:world:anyone", "2:world:anyone,31:auth:", "1:digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=", "30:ip:127.0.0.1")
	}
	return g.one("1:world:anyone", "1:world:anyone,31:digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=", "3:world:anyone,12:auth:",
		"31:ip:127.0.0.1/8", "5:world:anyone,5:world:anyone", "9:world:anyone,31:digest:alice:hash", "17:world:anyone")
}

// write returns an operation that a multi may hold.
func (g *generator) write(inMulti, alone bool) string {
	sequential := g.one("/x/s-", "/y/s-", "/x/y/s-", "/s-", "/x/")
	switch g.IntN(12) {
	case 0, 1, 2:
		return fmt.Sprintf("create %s %s %s %s", g.path(), g.data(), g.acl(), g.one("0", "0", "0", "1"))
	case 3:
		if inMulti && !g.alone {
			return fmt.Sprintf("create %s %s open 0", g.path(), g.data())
		}
		if inMulti {
			return fmt.Sprintf("create2 %s %s %s %s", g.path(), g.data(), g.acl(), g.one("0", "1", "2"))
		}
		return fmt.Sprintf("create2 %s %s %s %s", g.path(), g.data(), g.acl(), g.one("0", "1", "4", "7", "-1", "5"))
	case 4:
		return fmt.Sprintf("create %s %s %s %s", sequential, g.data(), g.acl(), g.one("2", "3"))
	case 5:
		return fmt.Sprintf("createContainer %s %s %s 4", g.path(), g.data(), g.acl())
	case 6, 7:
		return fmt.Sprintf("delete %s %s", g.path(), g.version())
	case 8, 9:
		return fmt.Sprintf("setData %s %s %s", g.path(), g.data(), g.version())
	case 10:
		if g.extended {
			return fmt.Sprintf("createTTL %s %s %s %s %s", g.path(), g.data(), g.acl(), "5", g.one("600000", "600000", "0", "-1", "1099511627776"))
		}
		return fmt.Sprintf("delete %s %s", g.path(), g.version())
	}
	if inMulti {
		return fmt.Sprintf("check %s %s", g.path(), g.version())
	}
	if !alone {
		return fmt.Sprintf("setData %s %s %s", g.path(), g.data(), g.version())
	}
	return fmt.Sprintf("setACL %s %s %s", g.path(), g.acl(), g.version())
}

func (g *generator) several(op func() string) string {
	ops := make([]string, g.IntN(5))
	for i := range ops {
		ops[i] = op()
	}
	return strings.Join(ops, " ; ")
}

// request returns one for a connection. What answers in several ways on purpose stands alone.
func (g *generator) request(conn string, alone bool) string {
	if !g.alone && g.in(12) {
		return g.quota()
	}
	watch := ""
	oneShot := conn == "a" || conn == "b"
	if oneShot && !g.secrets && g.in(2) {
		watch = " watch"
	}
	switch g.IntN(24) {
	case 0, 1:
		if g.secrets || !alone {
			return "getData " + g.path() + watch
		}
		return "exists " + g.path() + watch
	case 2, 3:
		return "getData " + g.path() + watch
	case 4:
		return "getChildren " + g.path() + watch
	case 5:
		return "getChildren2 " + g.path() + watch
	case 6:
		return "unordered getACL " + g.path()
	case 7:
		return g.one("getAllChildrenNumber "+g.path(), "getEphemerals "+g.one("null", "/", "/x", "/x/y"), "sync "+g.path(), "ping", "whoAmI",
			"reconfig null null null -1", "trunc=1 create /x d open 0", "trunc=2 getData /x")
	case 8:
		return strings.TrimSpace("multiRead " + g.several(func() string { return g.one("getData ", "getChildren ") + g.path() }))
	case 9, 10, 11:
		return strings.TrimSpace("multi " + g.several(func() string { return g.write(true, false) }))
	case 12:
		if g.secrets {
			return "ping"
		}
		return g.watch(oneShot)
	}
	return g.write(false, alone)
}

// quota returns a request about the quota of a subtree. A restart counts usage anew, and thereby rightly what Apache
// ZooKeeper has counted wrongly; so it is not for histories that go from server to server.
func (g *generator) quota() string {
	top := "/zookeeper/quota/" + g.one("x", "x", "y", "x/y")
	limits := g.one("count=3,bytes=100", "count=2,bytes=-1", "count=-1,bytes=5=;byteHardLimit=10;countHardLimit=3")
	switch g.IntN(9) {
	case 0, 1:
		return "create " + top + " null open 0"
	case 2, 3:
		return "create " + top + "/zookeeper_limits " + limits + " open 0"
	case 4, 5:
		return "create " + top + "/zookeeper_stats count=0,bytes=0 open 0"
	case 6:
		return "setData " + top + "/zookeeper_limits " + limits + " -1"
	case 7:
		return "delete " + top + g.one("", "/zookeeper_limits", "/zookeeper_stats") + " -1"
	}
	return "getData " + top + "/zookeeper_stats"
}

// watch returns a request about watches as such.
func (g *generator) watch(oneShot bool) string {
	if oneShot {
		paths := func() string { return g.one("-", "/x", "/x,/y", "/x/x,/y/y,/z") }
		switch g.IntN(3) {
		case 0:
			path := g.path()
			return fmt.Sprintf("getData %s watch | getChildren %s watch", path, path)
		case 1:
			return fmt.Sprintf("setWatches +%d %s %s %s", g.IntN(60), paths(), paths(), paths())
		}
		return fmt.Sprintf("removeWatches %s %s", g.path(), g.one("1", "2", "3", "0"))
	}
	path, mode := g.path(), "0"
	if strings.HasPrefix(path, "/x") || path == "/" {
		mode = "1"
	}
	if g.in(3) {
		return "removeWatches " + path + " 3"
	}
	return "addWatch " + path + " " + mode
}
