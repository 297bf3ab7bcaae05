//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// newZHome returns a home whose commands use a server within the test.
func newZHome(t testing.TB) (*home, *zktest.Server) {
	t.Helper()
	srv := zktest.New(t, zktest.Options{})
	return newHome(t, "LOCKKEEPER_SERVERS="+srv.Addr()), srv
}

// input gives a command standard input.
func input(text string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(text) }
}

// A zStep is a command line with what has to come of it.
type zStep struct {
	line   string
	in     string
	status int
	out    string // standard output, exactly; "…" at the end is anything
	err    string // in standard error
}

func (h *home) steps(prefix string, steps []zStep) {
	h.t.Helper()
	for _, step := range steps {
		args := append(strings.Fields(prefix), splitLine(h.t, step.line)...)
		j := h.startWith(input(step.in), args...).want(step.status, step.err)
		got := j.stdout.String()
		if begin, open := strings.CutSuffix(step.out, "…"); got != step.out && !(open && strings.HasPrefix(got, begin)) {
			h.t.Errorf("%s prints\n%q, want\n%q", step.line, got, step.out)
		}
	}
}

func splitLine(t testing.TB, line string) (words []string) {
	for word := range strings.SplitSeq(line, " ") {
		if word != "" {
			words = append(words, strings.ReplaceAll(word, "␣", " "))
		}
	}
	return words
}

func TestZVerbs(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	const noChroot = ": name the servers without a chroot, and the znode /app/config: servers read no quota below a chroot"
	file := filepath.Join(h.dir, "data")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.steps("z", []zStep{
		{line: "create /app/config one", status: 1, err: "its parent is missing (-p makes it)"},
		{line: "create -p /app/config one", out: "/app/config\n"},
		{line: "create /app/config one", status: 1, err: "exists"},
		{line: "create -p /app/config", out: "/app/config\n"},
		{line: "get /app/config", out: "one"},
		{line: "set /app/config two␣words"},
		{line: "set /app/config -v 0 three", status: 1, err: "it is not 0 any more"},
		{line: "set /app/config -v 1 three"},
		{line: "acl set /app/config digest:bob:secret:cdrwa", status: 64, err: "with the SHA-1 of user:password"},
		{line: "set /app/config -", in: "a - b"},
		{line: "get /app/config", out: "a - b"},
		{line: "set /app/config", in: "a\x00b\xff\n"},
		{line: "get /app/config", out: "a\x00b\xff\n"},
		{line: "get -x /app/config", out: "00000000  61 00 62 ff 0a                                    |a.b..|\n"},
		{line: "grep ^a /app", out: "/app/config: binary data matches\n"},
		{line: "set /app/config -f " + file},
		{line: "set /app/config -f " + file + ".missing", status: 71, err: "no such file"},
		{line: "set /app/config -f x y", status: 64, err: "one of them will do"},
		{line: "set -p /new/deep x"},
		{line: "set /missing x", status: 1, err: "set /missing: no such znode"},
		{line: "get /app/config", out: "from a file"},
		{line: "ls /", out: "app\nnew\nzookeeper\n"},
		{line: "ls", out: "app\nnew\nzookeeper\n"},
		{line: "ls -R /app", out: "/app\n/app/config\n"},
		{line: "ls /app /new", out: "/app:\nconfig\n\n/new:\ndeep\n"},
		{line: "ls /app /missing", status: 1, out: "/app:\nconfig\n", err: "children /missing: no such znode"},
		{line: "ls /missing", status: 1, err: "no such znode"},
		{line: "ls app//config", status: 64, err: "empty component"},
		{line: "get /app/../app/./config/", out: "from a file"},
		{line: "tree /app -d", out: "/app\n  config = from a file\n"},
		{line: "tree -L 1 /", out: "/\n  app\n  new\n  zookeeper\n"},
		{line: "set -p -v 0 /deleted x", status: 1, err: "set /deleted: no such znode"},
		{line: "ls /deleted", status: 1, err: "no such znode"},
		{line: "create -s /app/n-", out: "/app/n-0000000001\n"},
		{line: "create -s /app/", out: "/app/0000000002\n"},
		{line: "create -c /app/box", out: "/app/box\n"},
		{line: "create -c -e /app/box2", status: 64, err: "neither ephemeral nor sequential"},
		{line: "create -e --ttl 1s /app/box2", status: 64, err: "an ephemeral znode has no --ttl"},
		{line: "create /app/box2 --with-acl world:anyone", status: 64, err: "is not scheme:id:permissions"},
		{line: "create /app/box2 --with-acl world:anyone:rx", status: 64, err: `'x' is no permission`},
		{line: "find /app --kind ephemeral", status: 1, err: "nothing was found"},
		{line: "find / --name con*", out: "/app/config\n/zookeeper/config\n"},
		{line: "find /app --path ^/app/n-", out: "/app/n-0000000001\n"},
		{line: "find /app --min-bytes 5", out: "/app/config\n"},
		{line: "find /app --older 1h", status: 1, err: "nothing was found"},
		{line: "find /app --newer -1h", status: 64, err: "--newer -1h0m0s is not a time ago"},
		{line: "find /app --older 0", status: 64, err: "--older 0s is not a time ago"},
		{line: "tree -L -1 /", status: 64, err: "--depth -1 is negative"},
		{line: "find /app --kind wide", status: 64, err: "it is persistent or ephemeral"},
		{line: "find /app --name [", status: 64, err: "syntax error"},
		{line: "grep -i FROM", out: "/app/config:from a file\n"},
		{line: "grep -F a.f /app", status: 1, err: "nothing was found"},
		{line: "grep ( /app", status: 64, err: "-F takes the text as it is"},
		{line: "grep -l file", out: "/app/config\n"},
		{line: "du -L 0 /app", out: "          11         5  /app\n"},
		{line: "top -c 1 /app", out: "    CHILDREN  WIDEST\n           4  /app\n       BYTES  LARGEST\n          11  /app/config\n"},
		{line: "acl set /app/box nonsense:x:r", status: 64, err: "does not know the scheme"},
		{line: "acl get /app", out: "world:anyone:cdrwa\n"},
		{line: "acl set /app/box world:anyone:r"},
		{line: "acl set /app/n-0000000001 world:anyone:r -v 7", status: 1, err: "version"},
		{line: "acl get -R /app/box", out: "/app/box\tworld:anyone:r\n"},
		{line: "set /app/box x", status: 77, err: "not authorised"},
		{line: "quota get /app", status: 1, err: "there is none"},
		{line: "quota set /app", status: 64, err: "there is no limit"},
		{line: "quota set /app --count 9 --hard-bytes 99"},
		{line: "quota get /app", out: "             LIMIT        HARD        USED\nznodes           9           -           5\nbytes            -          99          11\n"},
		{line: "rm -r --force /zookeeper", status: 64, err: "rm /zookeeper: the znode is the servers' own and cannot be deleted"},
		{line: "rm /zookeeper/quota", status: 64, err: "rm /zookeeper/quota: the znode is the servers' own"},
		{line: "quota get /app", out: "             LIMIT        HARD        USED\nznodes           9           -           5\nbytes            -          99          11\n"},
		{line: "rm /zookeeper/quota/app/zookeeper_stats"}, // as where another client made the limits alone
		{line: "quota get /app", out: "             LIMIT        HARD        USED\nznodes           9           -           -\nbytes            -          99           -\n"},
		{line: "quota set /app --bytes 7 --count -1 --json", out: `{"path":"/app","limits":{"count":-1,"bytes":7,"hard_count":-1,"hard_bytes":99}}` + "\n"},
		{line: "quota get /app --json", out: `{"limits":{"count":-1,"bytes":7,"hard_count":-1,"hard_bytes":99},"path":"/app","used":{"count":5,"bytes":11}}` + "\n"},
		{line: "quota set /app --count -5", status: 64, err: "-5 is neither"},
		{line: "quota set / --count 5", status: 64, err: "the root and /zookeeper can have no quota"},
		{line: "quota set /app/config --count 5", status: 1, err: "/app has a quota, and quotas are not nested"},
		{line: "quota rm /app"},
		{line: "quota set /app/config --count 5"},
		{line: "quota set /app --count 9", status: 1, err: "/app/config has a quota, and quotas are not nested"},
		{line: "quota set /app/config --count 6"},
		{line: "quota set --servers " + srv.Addr() + "/app /config --count 7", status: 64, err: "quota set /config" + noChroot},
		{line: "quota get --servers " + srv.Addr() + "/app /config", status: 64, err: "quota get /config" + noChroot},
		{line: "quota rm --servers " + srv.Addr() + "/app /config", status: 64, err: "quota rm /config" + noChroot},
		{line: "quota rm /app/config"},
		{line: "quota set /app --count 9"},
		{line: "quota rm --json /app", out: `{"path":"/app","limits":{"count":-1,"bytes":-1,"hard_count":-1,"hard_bytes":-1}}` + "\n"},
		{line: "quota rm /app", status: 1, err: "quota /app: there is none"},
		{line: "quota get /app", status: 1, err: "there is none"},
		{line: "whoami", out: "ip:…"},
		{line: "multi -", in: "create /m 'a b' # comment\nset /m \"c d\" 0\n\ncheck /m 1\n", out: "/m\n"},
		{line: "get /m", out: "c d"},
		{line: "multi -", in: `create /re "a\d+\n"` + "\n", out: "/re\n"}, {line: "get /re", out: `a\d+\n`}, {line: "rm /re"},
		{line: "multi --json -", in: "check /m 1\ncreate /m2\n", out: `{"operation":1}` + "\n" + `{"operation":2,"path":"/m2"}` + "\n"},
		{line: "rm --json /m2", out: `{"path":"/m2","deleted":1}` + "\n"},
		{line: "rm -f /missing"}, {line: "rm -r -f --json /missing", out: `{"path":"/missing","deleted":0}` + "\n"},
		{line: "set -v -2 /m x", status: 64, err: "a version is a number from 0, and -1 is any"},
		{line: "rm -v x /m", status: 64, err: "not a whole number"},
		{line: "acl set /m ip:abc:r", status: 64, err: `"abc" is no IP address`},
		{line: "acl set --json /m ip:10.0.0.0/8:r,world:anyone:cdrwa", out: `{"path":"/m","kind":"persistent",` + "…"},
		{line: "acl set -R --json /m world:anyone:cdrwa", out: `{"acls_set":1,"path":"/m"}` + "\n"},
		{line: "get nosuch:/m", status: 64, err: "/lockkeeper/connections has no line for nosuch (--servers HOST:PORT names other servers; ./nosuch:/m is a znode of this name)"},
		{line: "get zk1:2181:/m", status: 64, err: "a tree on other servers is for cp, diff and mirror (--servers zk1:2181 names other servers;"},
		{line: "get zk://zk1:2181/m", status: 64, err: "a server is host:port, without zk:// (--servers HOST:PORT names other servers)"},
		{line: "ls unix:/run", status: 64, err: "this is a server's socket, not a znode (--servers unix:/run names other servers; ./unix:/run is a znode of this name)"},
		{line: "create -t 5000 /m3", status: 64, err: "5000ms, 5000s or 5000m"},
		{line: "get -w /m", status: 64, err: "lockkeeper z watch PATH"}, {line: "ls -s /m", status: 64, err: "lockkeeper z stat PATH"},
		{line: "acl /m", status: 64, err: "see lockkeeper z acl get /m"}, {line: "export /missing", status: 1, out: "…", err: "no such znode\n"},
		{line: "create -t 5s /m3", status: 1, err: "need extendedTypesEnabled=true"},
		{line: "sync /m", status: 64, err: "lockkeeper shell has it"}, {line: "config", status: 64, err: "lockkeeper z get /zookeeper/config"},
		{line: "addauth digest u:p", status: 64, err: "--auth-file authenticates"}, {line: "help get", status: 64, err: "lockkeeper help z VERB"},
		{line: "deleteall /m", status: 64, err: "did you mean rm"}, {line: "getAcl /m", status: 64, err: "did you mean acl"},
		{line: "multi -", in: "# comment\n\ncreate /n\ndelete /m 7\n", status: 1, err: "lockkeeper: multi -, line 4: delete /m: version does not match\n"},
		{line: "multi -", in: "set /zookeeper/quota x\ncheck /nix 0\n", status: 1, err: "lockkeeper: multi -, line 2: check /nix: no such znode\n"},
		{line: "get /n", status: 1, err: "no such znode"},
		{line: "multi -", in: "create /n\nfrob /m\n", status: 64, err: `line 2: "frob" is no operation`},
		{line: "multi -", in: "set /m 'x\n", status: 64, err: "a quote is not closed"},
		{line: "multi -", in: "# nothing\n", status: 64, err: "there is no operation in it"},
		{line: "rm /app", status: 1, err: "it has 4 children (rm -r deletes all below)"},
		{line: "rm /missing", status: 1, err: "no such znode"},
		{line: "rm -r /app", status: 64, err: "use --force to do it without asking (nothing has been deleted)"},
		{line: "rm -n -r /app", err: "/app: 5 znodes, 11 bytes"},
		{line: "rm -n -r --json /app", out: `{"path":"/app","znodes":5,"bytes":11,"unreadable":0,"ephemerals":[],"more_ephemerals":0,"locks":[]}` + "\n"},
		{line: "rm -v 3 /m", status: 1, err: "version"},
		{line: "rm -v 1 /m"},
		{line: "rm -r -f /app", err: "5 znodes deleted"},
		{line: "create /a", out: "/a\n"}, {line: "create /b", out: "/b\n"},
		{line: "rm -", in: "/a\n/b\n/new/deep\n"},
		{line: "create -p /c/d/e", out: "/c/d/e\n"},
		{line: "rm -", in: "/c\n/c/d\n/c/d/e\n"}, // as find writes them
		{line: "create -p /a/x", out: "/a/x\n"}, {line: "create /b", out: "/b\n"},
		{line: "rm -", in: "/b\n/a\n/new\n", status: 1, err: "1 of 3 paths are deleted, 2 remain\nlockkeeper: delete /a: it has 1 child"},
		{line: "rm -r -f /a", err: "2 znodes deleted"},
		{line: "ls", out: "new\nzookeeper\n"},
		{line: "rm -r -f /", err: "1 znode deleted"},
		{line: "ls", out: "zookeeper\n"},
		{line: "get", status: 64, err: "an argument is missing"},
		{line: "gte /", status: 64, err: "did you mean get"},
	})
}

// A verb that shows a tree says how much of it could not be read, and one that changes a tree changes nothing then.
func TestZSaysWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	const closed = "digest:ops:J3yWlZr1LkwgEN4mCmjcnHIHnQ8=:cdrwa"
	const part = "1 znode, or what is below, could not be read: not authorised (without credentials; --auth-file has some to show)"
	h, _ := newZHome(t)
	h.steps("z", []zStep{
		{line: "create -p /all/a/b/c", out: "…"},
		{line: "create /all/d", out: "…"},
		{line: "acl set -R /all " + closed, err: "5 ACLs set"}, // although the session may list none of them then
		{line: "get /all/a/b/c", status: 77, err: "not authorised"},
		{line: "create -p /app/open", out: "…"},
		{line: "create -p /app/shut/x", out: "…"},
		{line: "acl set /app/shut " + closed},
		{line: "ls -R /app", out: "/app\n/app/open\n/app/shut\n", status: 77, err: part},
		{line: "tree /app", out: "/app\n  open\n  shut  (not readable)\n", status: 77, err: part},
		{line: "acl get -R /app", out: "/app\tworld:anyone:cdrwa\n/app/open\tworld:anyone:cdrwa\n/app/shut\t(not readable)\n", status: 77, err: part},
		{line: "ls -l /app", status: 77, out: "…", err: part},
		{line: "ls -R /app /app", status: 77, out: "/app\n/app/open\n/app/shut\n/app\n/app/open\n/app/shut\n", err: "2 znodes, or what is below"},
		{line: "find /app", status: 77, out: "/app\n/app/open\n/app/shut\n", err: part},
		{line: "find /app --name x", status: 77, err: part},
		{line: "grep x /app", status: 77, err: part},
		{line: "ephemerals /app", status: 77, err: part},
		{line: "sessions /app", status: 77, err: part},
		{line: "du -L 0 /app", status: 77, out: "           0         3  /app\n", err: part},
		{line: "top /app", status: 77, out: "    CHILDREN  WIDEST\n           2  /app\n       BYTES  LARGEST\n", err: part},
		{line: "ls /app", out: "open\nshut\n"},
		{line: "diff /app/shut /app/shut", status: 77, err: "lockkeeper: get /app/shut: not authorised (without credentials; --auth-file has some to show)\n"},
		{line: "acl set -R /app ip:127.0.0.1:cdrwa", status: 77, err: "/app/shut: not authorised"},
		{line: "acl get /app/open", out: "world:anyone:cdrwa\n"},
	})
}

// A znode that create -p finds is shown as it is, also below one in which the user may create nothing.
func TestZCreateOfWhatIsThere(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.steps("z", []zStep{
		{line: "create -p /shut/there one", out: "/shut/there\n"},
		{line: "acl set /shut world:anyone:ra"},
		{line: "create -p /shut/there", out: "/shut/there\n"},
		{line: "create -p /shut/new", status: 77, err: "not authorised"},
		{line: "create /shut/there", status: 77, err: "not authorised"},
	})
	want := h.run("z", "stat", "--json", "/shut/there").want(0).stdout.String()
	h.steps("z", []zStep{
		{line: "create -p --json /shut/there two", out: want},
		{line: "acl set /shut world:anyone:cdrwa"},
		{line: "create -p --json /shut/there two", out: want},
		{line: "create --json /shut/there two", status: 1, err: "exists"},
	})
}

func TestZCreateEndsWhenItsEphemeralIsDeleted(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	made := h.start("z", "create", "-e", "/here", "1")
	shut := h.start("z", "create", "-e", "/shut", "--with-acl", "world:anyone:d")
	for _, j := range []*job{made, shut} {
		err := j.stderr.see("lives until this command ends")
		if err != nil {
			t.Fatal(err)
		}
	}
	h.steps("z", []zStep{
		{line: "set /here 2"},
		{line: "get /here", out: "2"},
		{line: "rm --force /here", err: "/here of the live session"},
	})
	made.want(1, "lockkeeper: /here is gone: another client has deleted it\n")
	shut.signal(syscall.SIGINT)
	shut.wantInterrupted()
}

// What has been made is named, also where the answer cannot be written.
func TestZCreateThatCannotPrintThePathNamesIt(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	h.startWith(func(c *exec.Cmd) { c.Stdout = full }, "z", "create", "-s", "/item-").want(71, "/item-0000000000 is there, but its path cannot be printed: write")
}

// A terminal that goes away ends a command as ^C does: with nothing left behind.
func TestAHangupIsAnInterruption(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	for _, c := range []struct {
		trap   string
		sig    syscall.Signal
		status int
	}{{"", syscall.SIGHUP, 129}, {"trap '' HUP; ", syscall.SIGTERM, 143}} {
		j := h.startWith(func(cmd *exec.Cmd) {
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", c.trap + `exec "$LK" z create -e /mine`}
		})
		if err := j.stderr.see("/mine lives until"); err != nil {
			t.Fatal(err)
		}
		j.signal(syscall.SIGHUP)
		if c.sig != syscall.SIGHUP {
			h.run("z", "stat", "/mine").want(0)
			j.signal(c.sig)
		}
		j.want(c.status)
		h.run("z", "stat", "/mine").want(1)
	}
}

func TestAPersonIsToldThatDataIsWaitedFor(t *testing.T) {
	t.Parallel()
	var told strings.Builder
	e := &zEnv{in: strings.NewReader("typed"), notes: &told, keyboard: true}
	data, err := e.readData("-")
	if string(data) != "typed" || err != nil || told.String() != "lockkeeper: the data is read from standard input (Ctrl-D ends it)\n" {
		t.Errorf("the data is %q, %v, and the person is told %q", data, err, told.String())
	}
}

func TestZStatNamesEachOfSeveral(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.steps("z", []zStep{
		{line: "create /a", out: "/a\n"}, {line: "create /b", out: "/b\n"},
	})
	one, other := h.run("z", "stat", "/a").stdout.String(), h.run("z", "stat", "/b").stdout.String()
	h.steps("z", []zStep{
		{line: "stat /a /b", out: "/a:\n" + one + "\n/b:\n" + other},
	})
}

// zkCli's and a file system's words lead to the verbs of z, from the top as well.
func TestVerbsOfZAreSuggestedAtTheTop(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for line, want := range map[string]string{"ls /": "did you mean z ls?", "rmr /a": "did you mean z rm?", "getAcl /a": "did you mean z acl?",
		"sync /": "lockkeeper shell has it", "addauth digest u:p": "--auth-file authenticates", "reconfig": "with the zkCli of its own version"} {
		h.run(splitLine(t, line)...).want(64, want)
	}
}

func TestZJSONOfNoData(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.run("z", "create", "/null").want(0)
	h.run("z", "create", "/empty", "").want(0)
	for path, want := range map[string]string{"/null": `"text":"","null":true}`, "/empty": `"num_children":0,"text":""}`} {
		for _, verb := range []string{"get", "tree -d", "grep ^$"} {
			args := append(splitLine(t, "z "+verb), "--json", path)
			if got := h.run(args...).want(0).stdout.String(); !strings.HasSuffix(got, want+"\n") {
				t.Errorf("%s %s says %s", verb, path, got)
			}
		}
	}
}

// An expression is about a line, whatever is printed of it.
func TestZGrepIsByLines(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.startWith(input("one\ntwo\r\nthree"), "z", "create", "-p", "/g/lines", "-").want(0)
	h.startWith(input("\x00one\ntwo"), "z", "create", "/g/bytes", "-").want(0)
	h.steps("z", []zStep{
		{line: "grep ^two$", out: "/g/bytes: binary data matches\n/g/lines:two\n"},
		{line: "grep -i ^ONE$", out: "/g/lines:one\n"},
		{line: "grep -l ^three$", out: "/g/lines\n"},
		{line: "grep -l two$", out: "/g/bytes\n/g/lines\n"},
		{line: "grep --json ^two$ /g/lines", out: `{"path":"/g/lines",…`},
		{line: `grep one\stwo`, status: 1, err: "nothing was found"},
		{line: `grep -l one[^x]two`, status: 1, err: "nothing was found"},
		{line: "create /g/empty", out: "/g/empty\n"},
		{line: "grep ^$ /g/empty", out: "/g/empty:\n"},
	})
}

func TestZJSON(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.run("z", "create", "-p", "/app/text", "grüße").want(0)
	h.startWith(input("\xff\x00"), "z", "create", "/app/bytes", "-f", "-").want(0)
	var nodes []statJSON
	for line := range strings.Lines(h.run("z", "tree", "-d", "/app", "--json").want(0).stdout.String()) {
		var n statJSON
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		nodes = append(nodes, n)
	}
	if len(nodes) != 3 || nodes[0].NumChildren != 2 || string(nodes[1].Data) != "\xff\x00" || nodes[1].Text != nil || nodes[2].Text == nil || *nodes[2].Text != "grüße" {
		t.Errorf("tree --json says %+v", nodes)
	}
}

// A name with a character that turns text around is legal. It must not turn a listing at a terminal around; in a pipe an escape would
// be another name, which is legal too.
func TestZNamesAreEscapedAtATerminalAlone(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.steps("z", []zStep{
		{line: "create -p /p/a\u202eb \u202e", out: "/p/a\u202eb\n"},
		{line: `create /p/a\u202eb`, out: `/p/a\u202eb` + "\n"},
		{line: "get /p/a\u202eb", out: "\u202e"},
		{line: "ls /p", out: `a\u202eb` + "\na\u202eb\n"},
		{line: "ls -R /p", out: "/p\n" + `/p/a\u202eb` + "\n/p/a\u202eb\n"},
		{line: "tree -d /p", out: "/p\n" + `  a\u202eb` + "\n  a\u202eb = \\u202e\n"},
		{line: "find /p --min-bytes 1", out: "/p/a\u202eb\n"},
	})
	h.run("z", "create", "-p", "/q/c\u202ed", "x").want(0)
	term := ptytest.Open(t)
	slave := term.Slave()
	defer slave.Close()
	for _, verb := range []string{"ls", "ls -l", "ls -R", "find", "grep -l x", "tree", "du", "top", "acl get -R"} {
		j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdout = slave }, append([]string{"z"}, splitLine(t, verb+" /q")...)...)
		if before := term.WaitFor(`c\u202ed`); strings.Contains(before, "\u202e") {
			t.Errorf("%s shows %q", verb, before)
		}
		j.want(0)
	}
	found := h.run("z", "find", "/p", "--min-bytes", "1").stdout.String()
	h.steps("z", []zStep{
		{line: "rm -", in: found},
		{line: "ls /p", out: `a\u202eb` + "\n"},
	})
}

func TestNamesThatZooKeeperDoesNotAllowAreNoPathsInAPipe(t *testing.T) {
	t.Parallel()
	if got := (&zEnv{}).name("/a\n/b"); got != `"/a\n/b"` {
		t.Errorf("the name is written as %s", got)
	}
}

// What others have written is bytes for a program, and does nothing to a terminal, whatever shows it.
func TestDataThatIsNotTextIsDumpedAtATerminal(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	const red, dump = "\x1b[31mred", "00000000  1b 5b 33 31 6d 72 65 64 "
	h.steps("", []zStep{
		{line: "z create /red " + red, out: "/red\n"},
		{line: "config get /red", out: red},
		{line: "zkcli get /red", out: "Connecting to …"},
	})
	if got := h.run("zkcli", "get", "/red").want(0).stdout.String(); !strings.Contains(got, "\n"+red+"\n") {
		t.Errorf("zkcli prints %q to a pipe", got)
	}
	term := ptytest.Open(t)
	slave := term.Slave()
	defer slave.Close()
	for _, test := range []struct {
		line, in string
		watches  bool
	}{
		{line: "z get /red"},
		{line: "config get /red"},
		{line: "config watch /red", watches: true},
		{line: "zkcli get /red"},
		{line: "shell", in: "get /red\n"},
		{line: "shell", in: "get /red true\n"}, // as zkCli has it
	} {
		j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout = strings.NewReader(test.in), slave }, splitLine(t, test.line)...)
		if before := term.WaitFor(dump); strings.Contains(before, "\x1b") {
			t.Errorf("%s prints %q", test.line, before)
		}
		if test.watches {
			j.signal(syscall.SIGINT)
			j.wantInterrupted()
		} else {
			j.want(0)
		}
	}
	const hidden = "a line\rhidden"
	h.startWith(input(hidden), "z", "set", "/red").want(0)
	h.steps("z", []zStep{
		{line: "grep hidden /red", out: "/red: binary data matches\n"},
		{line: "set /red hidden\r\nshown\r\n"},
		{line: "grep hidden /red", out: "/red:hidden\n"},
	})
}

// Names stand in messages, too.
func TestNamesAreEscapedInErrors(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.run("z", "create", "-p", "/q/c\u202ed", "x").want(0)
	h.run("z", "quota", "set", "--count", "5", "/q/c\u202ed").want(0)
	h.run("z", "acl", "set", "/q/c\u202ed", "digest:ops:J3yWlZr1LkwgEN4mCmjcnHIHnQ8=:cdrwa").want(0)
	for _, line := range []string{"z export /q", "z cp /q /r", "zkcli get /q/c\u202ed", "zkcli setquota -n 5 /q", "locks /"} {
		j := h.run(splitLine(t, line)...)
		if said := j.stderr.String(); strings.Contains(said, "\u202e") || !strings.Contains(said, `/q/c\u202ed`) {
			t.Errorf("%s says %q", line, said)
		}
	}
	if said := h.startWith(input("export /q\n"), "shell").want(77).stderr.String(); strings.Contains(said, "\u202e") {
		t.Errorf("the shell says %q", said)
	}
}

func TestZWatchTellsOfEachChange(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	j := h.start("z", "watch", "-R", "-d", "--count", "3", "/")
	if err := j.stderr.see("watching /"); err != nil {
		t.Fatal(err)
	}
	h.run("z", "create", "/a", "x").want(0)
	h.run("z", "set", "/a", "y").want(0)
	h.run("z", "rm", "/a").want(0)
	j.want(0)
	var got []string
	for line := range strings.Lines(j.stdout.String()) {
		_, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		got = append(got, strings.Join(strings.Fields(strings.SplitN(what, " = ", 2)[0]), " "))
	}
	if s := strings.Join(got, ", "); s != "created /a, changed /a, deleted /a" {
		t.Errorf("watch prints %s\n%s", s, j.stdout)
	}
}

// rm names what dies with a tree, and asks.
func TestZRmNamesHoldersAndAsks(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	holder := h.start("run", "/locks/report", "--", "sh", "-c", "echo running; sleep 1000")
	holder.see("running")
	ephemeral := h.start("z", "create", "-p", "-e", "/locks/me")
	ephemeral.see("/locks/me")
	term := ptytest.Open(t)
	slave := term.Slave()
	defer slave.Close()
	loss := h.run("z", "rm", "-n", "-r", "--json", "/locks").want(0).stdout.String()
	if !strings.Contains(loss, `"ephemerals":[{"path":"/locks/me","session":"0x`) || !strings.Contains(loss, `"locks":[{"path":"/locks/report","holders":["`) {
		t.Errorf("rm -n --json says %s", loss)
	}
	rm := h.startWith(func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stderr = slave, slave }, "z", "rm", "-r", "/locks")
	said := term.WaitFor("Delete? [y/N] ")
	for _, want := range []string{"ephemeral /locks/me of the live session 0x", "the lock /locks/report would be taken from its holder, "} {
		if !strings.Contains(said, want) {
			t.Errorf("rm says %q, want %q", said, want)
		}
	}
	term.Type("n\n")
	rm.want(1)
	h.run("z", "ls", "/locks/me").want(0)
	rm = h.startWith(func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stderr = slave, slave }, "z", "rm", "-r", "/locks")
	term.WaitFor("Delete? [y/N] ")
	term.Type("y\n")
	rm.want(0)
	h.run("z", "ls", "/locks").want(1)
	holder.want(74, "lost")
}

// A writerFunc is called for all that is written.
type writerFunc func()

func (f writerFunc) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

// With -f a znode that goes after rm has looked at it is deleted, too.
func TestZRmForceTakesWhatGoesMeanwhileForDeleted(t *testing.T) {
	t.Parallel()
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	for _, recursive := range []bool{false, true} {
		_, err := s.Create(t.Context(), "/mine", nil, zk.Ephemeral, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := &zEnv{notes: writerFunc(func() { // when rm has looked, and says what would go
			err := s.Delete(t.Context(), "/mine", zk.AnyVersion)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Error(err)
			}
		})}
		err = e.remove(t.Context(), s, "/mine", removal{force: true, recursive: recursive, version: zk.AnyVersion})
		if err != nil {
			t.Errorf("recursive %v: %v", recursive, err)
		}
	}
}

func TestZEditRefusesIfChangedMeanwhile(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.env = append(h.env, "EDITOR=sed -i s/one/two/", "VISUAL=", "TMPDIR="+h.dir)
	h.steps("z", []zStep{
		{line: "create /c one", out: "/c\n"},
		{line: "edit /c --json", out: `{"path":"/c","kind":"persistent",…`},
		{line: "get /c", out: "two"},
		{line: "edit /c", err: "/c is unchanged"},
	})
	h.env = append(h.env, "EDITOR=f() { LOCKKEEPER_TEST_AS_COMMAND=1 $LK z set /c other; echo mine > $1; }; f")
	h.run("z", "edit", "/c").want(1, "was changed or deleted meanwhile; nothing has been written, and the edited text is in "+h.dir)
	h.steps("z", []zStep{{line: "get /c", out: "other"}, {line: "rm /c"}, {line: "create /c one", out: "/c\n"}})
	h.env = append(h.env, "LOCKKEEPER_TEST_AS_COMMAND=1", "EDITOR=f() { $LK z rm /c; $LK z create /c anew; echo mine > $1; }; f") // of the same version
	h.run("z", "edit", "/c").want(1, "was changed or deleted meanwhile; nothing has been written, and the edited text is in "+h.dir)
	h.steps("z", []zStep{{line: "get /c", out: "anew"}})
	h.env = append(h.env, "EDITOR=false")
	h.run("z", "edit", "/c").want(1, "the editor failed")
	if left, _ := filepath.Glob(h.dir + "/lockkeeper-edit-*"); len(left) != 2 {
		t.Errorf("%d edited files are left, want the two that were not written", len(left))
	}
}

// Neither a signal nor servers that are away end the editor, and text that cannot be written is kept and named.
func TestZEditKeepsTheTextOfTheEditor(t *testing.T) {
	t.Parallel()
	const connectTimeout = 5 * time.Second // the first session has to come about within it, on a busy machine too
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, srv *zktest.Server, j *job)
		status    int
		says      string
		data      string // of the znode, afterwards
	}{
		"interrupt": {func(_ *testing.T, _ *zktest.Server, j *job) {
			j.signal(syscall.SIGINT)
			j.signal(syscall.SIGQUIT)
		}, 0, "/c written", "two\n"},
		"terminate": {func(_ *testing.T, _ *zktest.Server, j *job) { j.signal(syscall.SIGTERM) },
			143, "edit /c: terminated (the znode is as it was, and the edited text is in ", "one"},
		"hang up": {func(_ *testing.T, _ *zktest.Server, j *job) { j.signal(syscall.SIGHUP) },
			129, "edit /c: hangup (the znode is as it was, and the edited text is in ", "one"},
		"no server for some time": {func(_ *testing.T, srv *zktest.Server, _ *job) {
			srv.Link("").Refuse()
			time.Sleep(connectTimeout + 500*time.Millisecond)
			srv.Link("").Heal()
		}, 0, "/c written", "two\n"},
		"no server": {func(_ *testing.T, srv *zktest.Server, _ *job) { srv.Link("").Refuse() },
			69, "(the edited text is in ", "one"},
		"the editor fails": {func(t *testing.T, _ *zktest.Server, j *job) {
			if err := os.WriteFile(j.cmd.Dir+"/fail", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, 1, "the editor failed: exit status 1 (the znode is as it was, and the edited text is in ", "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, srv := newZHome(t)
			h.env = append(h.env, "VISUAL=", "TMPDIR="+h.dir,
				`EDITOR=f() { echo two > "$1"; echo open; until test -e "$DIR/close"; do sleep 0.02; done; test ! -e "$DIR/fail"; }; f`)
			h.run("z", "create", "/c", "one").want(0)
			j := h.start("z", "edit", "--connect-timeout", connectTimeout.String(), "/c")
			j.see("open\n")
			test.meanwhile(t, srv, j)
			select {
			case <-j.done:
				t.Error("edit has ended before its editor")
			case <-time.After(200 * time.Millisecond):
			}
			if err := os.WriteFile(h.dir+"/close", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			j.want(test.status, test.says)
			srv.Link("").Heal()
			if got := h.run("z", "get", "/c").want(0).stdout.String(); got != test.data {
				t.Errorf("the znode has %q, want %q", got, test.data)
			}
			kept, _ := filepath.Glob(h.dir + "/lockkeeper-edit-*")
			if test.status == 0 {
				if len(kept) > 0 {
					t.Errorf("%q is left", kept)
				}
				return
			}
			if len(kept) != 1 {
				t.Fatalf("%d edited files are kept, want 1", len(kept))
			}
			if text, err := os.ReadFile(kept[0]); string(text) != "two\n" || err != nil || !strings.Contains(j.stderr.String(), kept[0]) {
				t.Errorf("the kept file has %q, %v; edit says %s", text, err, j.stderr)
			}
		})
	}
}

// BenchmarkZGet is one z get, from its start to its exit.
func BenchmarkZGet(b *testing.B) {
	h, _ := newZHome(b)
	h.run("z", "create", "/a", "x").want(0)
	var worst time.Duration
	for b.Loop() {
		begin := time.Now()
		cmd := exec.Command(h.self, "z", "get", "/a")
		cmd.Env = h.env
		if out, err := cmd.Output(); err != nil || string(out) != "x" {
			b.Fatalf("%q, %v", out, err)
		}
		worst = max(worst, time.Since(begin))
	}
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
}

// A terminal takes U+009B for the beginning of an escape sequence. JSON leaves it as it is unless it is told otherwise.
func TestJSONHasNoEscapeSequences(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("z", "create", "-p", "/lockkeeper/locks/demo/_c_00000000000000000000000000000001-lock-0000000000", "\u009b31m").want(0)
	for _, line := range []string{"z get --json /lockkeeper/locks/demo/_c_00000000000000000000000000000001-lock-0000000000", "z export /lockkeeper",
		"locks --json demo", "members --json /lockkeeper/locks/demo", "config get --json /lockkeeper/locks/demo/_c_00000000000000000000000000000001-lock-0000000000"} {
		got := h.run(strings.Fields(line)...).want(0).stdout.String()
		if strings.Contains(got, "\u009b") || !strings.Contains(got, `\u009b31m`) {
			t.Errorf("%s: %q", line, got)
		}
	}
}
