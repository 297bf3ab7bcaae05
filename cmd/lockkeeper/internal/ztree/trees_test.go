package ztree_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// differences returns what Diff finds, in short.
func differences(t testing.TB, a *client.Session, rootA string, b *client.Session, rootB string) (all []string) {
	t.Helper()
	_, err := ztree.Diff(t.Context(), a, rootA, b, rootB, false, func(d ztree.Difference) error {
		what := "~"
		switch {
		case d.B == nil:
			what = "-"
		case d.A == nil:
			what = "+"
		case !d.Data:
			what = "acl"
		}
		all = append(all, what+d.Path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// mixed makes a tree with all that an export has to keep.
func mixed(t testing.TB, s *client.Session) {
	t.Helper()
	fill(t, s, bushes())
	for path, data := range map[string][]byte{"/t/null": nil, "/t/empty": {}, "/t/bytes": {0xff, 0, '\n'}, "/t/turned\u202e": []byte("ä\"\\\n\u2028<>"), "/t/text": []byte("null")} {
		if _, err := s.Create(t.Context(), path, data, zk.Persistent, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Create(t.Context(), "/t/acl", nil, zk.Persistent, append(zk.DigestACL(zk.PermAll, "ann", "secret"), zk.ACL{Perms: zk.PermRead | zk.PermAdmin, Scheme: "world", ID: "anyone"})); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/t/alive", "/t/lock-"} {
		mode := zk.Ephemeral
		if strings.HasSuffix(name, "-") {
			mode = zk.EphemeralSequential
		}
		if _, err := s.Create(t.Context(), name, nil, mode, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// importer writes below root.
func importer(s *client.Session, root string) *ztree.Importer {
	return &ztree.Importer{Root: root, Writer: ztree.Writer{S: s}}
}

func read(t testing.TB, export []byte, to *ztree.Importer) (string, error) {
	t.Helper()
	format, err := ztree.ReadExport(bytes.NewReader(export), func(r ztree.Record) error { return to.Add(t.Context(), r) })
	if flushErr := to.Flush(t.Context()); err == nil {
		err = flushErr
	}
	return format, err
}

func TestExportAndImport(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	mixed(t, s)
	var export bytes.Buffer
	n, left, err := ztree.Export(t.Context(), s, "/t", false, &export, nil)
	if err != nil || left != (ztree.LeftOut{Ephemerals: 2, Queued: 1}) {
		t.Fatalf("export of %d znodes: %v, %v", n, left, err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(export.Bytes())
	z.Close()
	for i, in := range [][]byte{export.Bytes(), packed.Bytes()} {
		root := fmt.Sprintf("/deep/copy%d", i)
		to := importer(s, root)
		if format, err := read(t, in, to); err != nil || format != "lockkeeper" || to.Done != n {
			t.Fatalf("import of %s: %d of %d znodes, %v", format, to.Done, n, err)
		}
		if d := differences(t, s, "/t", s, root); len(d) > 0 {
			t.Errorf("what was imported differs: %q", d)
		}
	}
	// Once more, onto what is there.
	if _, err := read(t, export.Bytes(), importer(s, "/deep/copy0")); !errors.Is(err, zk.ErrNodeExists) {
		t.Errorf("an import onto what is there: %v", err)
	}
	if _, err := s.Set(t.Context(), "/deep/copy0/text", []byte("changed"), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "/deep/copy0/bytes", zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	to := importer(s, "/deep/copy0")
	to.Existing = ztree.Skip
	if _, err := read(t, export.Bytes(), to); err != nil || to.Done != 1 || to.Skipped != n-1 {
		t.Errorf("an import that skips what is there: %d written, %d skipped, %v", to.Done, to.Skipped, err)
	}
	if d := differences(t, s, "/t", s, "/deep/copy0"); !slices.Equal(d, []string{"~/text"}) {
		t.Errorf("after it: %q", d)
	}
	to = importer(s, "/deep/copy0")
	to.Existing, to.OpenACL = ztree.Overwrite, false
	if _, err := read(t, export.Bytes(), to); !errors.Is(err, zk.ErrNoAuth) { // the znode with an ACL of its own
		t.Errorf("an import over a znode that may not be written: %v", err)
	}
}

// Whatever is cut off the end of an export, it is not taken for a whole one.
// Servers hide the hashes of an ACL from clients that may not change it. No copy gets such an ACL, with which no password would do.
func TestHiddenHashes(t *testing.T) {
	s := zktest.New(t, zktest.Options{}).Session(t, "s")
	fill(t, s, []string{"/h"})
	hidden := append(zk.DigestACL(zk.PermAll, "ann", "secret"), zk.ReadOnlyACL()...)
	if _, err := s.Create(t.Context(), "/h/acl", []byte("v"), zk.Persistent, hidden); err != nil {
		t.Fatal(err)
	}
	mirror := func(openACL, apply bool) error {
		m := ztree.Mirror{From: s, FromRoot: "/h", To: s, ToRoot: "/mirror", OpenACL: openACL, Apply: apply, Tell: func(ztree.Step) error { return nil }}
		_, _, err := m.Run(t.Context())
		return err
	}
	export := func(openACL bool) (string, error) {
		var b bytes.Buffer
		_, _, err := ztree.Export(t.Context(), s, "/h", openACL, &b, nil)
		return b.String(), err
	}
	open := importer(s, "/copied")
	open.OpenACL = true
	_, exported := export(false)
	_, copied := ztree.Copy(t.Context(), s, "/h", importer(s, "/copy"))
	_, moved := ztree.MoveAtOnce(t.Context(), s, "/h/acl", "/moved")
	_, movedByCopy := ztree.MoveByCopy(t.Context(), s, "/h/acl", "/moved", nil, nil)
	for what, err := range map[string]error{"export": exported, "copy": copied, "move": moved, "move by copy": movedByCopy,
		"plan of a mirror": mirror(false, false), "mirror": mirror(false, true)} {
		if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "/h/acl: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	text, exported := export(true)
	_, copied = ztree.Copy(t.Context(), s, "/h", open)
	for what, err := range map[string]error{"export": exported, "copy": copied, "mirror": mirror(true, true)} {
		if err != nil {
			t.Errorf("%s without ACLs: %v", what, err)
		}
	}
	if strings.Contains(text, "acl\":") {
		t.Errorf("an export without ACLs: %s", text)
	}
	for _, path := range []string{"/copied/acl", "/mirror/acl"} {
		if acl, _, err := s.ACL(t.Context(), path); err != nil || !ztree.IsOpen(acl) {
			t.Errorf("%s: %v, %v", path, acl, err)
		}
	}
}

// Of ACLs whose hashes are not shown it is not known whether they are the same.
func TestHiddenHashesAreNotCompared(t *testing.T) {
	var sessions []*client.Session
	for _, password := range []string{"one", "two"} {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		hidden := append(zk.DigestACL(zk.PermAll, "ann", password), zk.ACL{Perms: zk.PermRead | zk.PermWrite, Scheme: "world", ID: "anyone"})
		if _, err := s.Create(t.Context(), "/h", nil, zk.Persistent, hidden); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	a, b := sessions[0], sessions[1]
	diff := func(ignoreACL bool) error {
		_, err := ztree.Diff(t.Context(), a, "/", b, "/", ignoreACL, func(d ztree.Difference) error { return fmt.Errorf("%s differs", d.Path) })
		return err
	}
	mirror := func() error {
		m := ztree.Mirror{From: a, FromRoot: "/", To: b, ToRoot: "/", Tell: func(ztree.Step) error { return nil }}
		_, _, err := m.Run(t.Context())
		return err
	}
	for what, err := range map[string]error{"diff": diff(false), "mirror": mirror()} {
		if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "/h: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := diff(true); err != nil {
		t.Errorf("without ACLs: %v", err)
	}
	if _, err := a.Set(t.Context(), "/h", []byte("new"), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if err := mirror(); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a mirror of other data: %v", err)
	}
}

func TestHalfAnExport(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	fill(t, s, []string{"/t", "/t/a", "/t/b"})
	var export bytes.Buffer
	if _, _, err := ztree.Export(t.Context(), s, "/t", false, &export, nil); err != nil {
		t.Fatal(err)
	}
	whole := export.Bytes()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(whole)
	z.Close()
	see := func(ztree.Record) error { return nil }
	for end := range len(whole) - 2 { // without the last newline it is still whole
		if _, err := ztree.ReadExport(bytes.NewReader(whole[:end]), see); err == nil {
			t.Fatalf("%q is taken for a whole export", whole[:end])
		}
	}
	for end := range packed.Len() {
		if _, err := ztree.ReadExport(bytes.NewReader(packed.Bytes()[:end]), see); err == nil {
			t.Fatalf("%d of %d compressed bytes are taken for a whole export", end, packed.Len())
		}
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for what, text := range map[string][]byte{
		"a line is missing":    slices.Concat(lines[0], lines[2], lines[3], lines[4]),
		"a path is bad":        bytes.Replace(whole, []byte(`"/a"`), []byte(`"/a/../b"`), 1),
		"a later version":      bytes.Replace(whole, []byte(`"version":1`), []byte(`"version":2`), 1),
		"a line is no JSON":    bytes.Replace(whole, []byte(`{"path":"/a"`), []byte(`{path`), 1),
		"another format":       []byte("hello"),
		"zkui without a value": []byte("/a/b\n"),
		"zkui that removes":    []byte("-/a/b\n"),
		"an object of numbers": []byte(`{"/a": 7}`),
		"an array of numbers":  []byte(`[7]`),
		"a path twice":         []byte("/a=b=1\n/a=b=2\n"),
	} {
		if _, err := ztree.ReadExport(bytes.NewReader(text), see); err == nil {
			t.Errorf("%s: it is taken for an export", what)
		}
	}
}

// Zeros are text, of six bytes each in JSON.
func TestLargeDataOfControlCharacters(t *testing.T) {
	var export bytes.Buffer
	e, err := ztree.NewExporter(&export, "/")
	data := make([]byte, 5<<20)
	if err = errors.Join(err, e.Add(ztree.Record{Path: "/a", Data: data}), e.End()); err != nil {
		t.Fatal(err)
	}
	_, err = ztree.ReadExport(&export, func(r ztree.Record) error {
		if !bytes.Equal(r.Data, data) {
			t.Errorf("%d bytes are read", len(r.Data))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestExportsOfOthers(t *testing.T) {
	world := `[{"perms":31,"id":{"scheme":"world","id":"anyone"}}]`
	for format, text := range map[string]string{
		"zk_shell":     `{"/a/b":{"content":"aGk=","acls":` + world + `},"/a":{"content":null,"acls":` + world + `}}`,
		"zoocreeper":   `{"/a":{"ephemeralOwner":0,"data":null,"acls":[{"id":"anyone","scheme":"world","perms":31}]},"/a/b":{"ephemeralOwner":0,"data":"aGk=","acls":[]},"/a/e":{"ephemeralOwner":7,"data":null,"acls":[]}}`,
		"ZooNavigator": `[{"h":{"acl":[{"id":"anyone","scheme":"world","permissions":["read","write","create","delete","admin"]}],"path":"/a","data":""},"t":[{"h":{"acl":[],"path":"/a/b","data":"aGk="},"t":[]}]}]`,
		"zkui":         "# a comment\n/a=b=hi\n",
	} {
		t.Run(format, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			s := srv.Session(t, "s")
			if got, err := read(t, []byte(text), importer(s, "/")); got != format || err != nil {
				t.Fatalf("it is read as %s, %v", got, err)
			}
			if got := paths(t, s, "/a", ztree.WalkOptions{}); !slices.Equal(got, []string{"/a", "/a/b"}) {
				t.Errorf("there are %q", got)
			}
			if data, _, err := s.Get(t.Context(), "/a/b"); string(data) != "hi" || err != nil {
				t.Errorf("/a/b has %q, %v", data, err)
			}
		})
	}
}

// The root of an export is made with its data and ACL, also by an import that skips what is there; and it is made for
// an export that has none.
func TestImportMakesTheRoot(t *testing.T) {
	for _, mode := range []ztree.Existing{ztree.Fail, ztree.Skip, ztree.Overwrite} {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "s")
		own := `{"format":"lockkeeper-tree","version":1}` + "\n" + `{"path":"/","text":"x","acl":[{"scheme":"world","id":"anyone","perms":"cr"}]}` + "\n" +
			`{"path":"/a"}` + "\n" + `{"end":true,"znodes":2}` + "\n"
		to := importer(s, "/deep/new")
		to.Existing = mode
		if _, err := read(t, []byte(own), to); err != nil || to.Done != 2 || to.Skipped != 0 {
			t.Errorf("mode %v: %d znodes imported, %d skipped, %v", mode, to.Done, to.Skipped, err)
		}
		data, _, err := s.Get(t.Context(), "/deep/new")
		if string(data) != "x" || err != nil {
			t.Errorf("mode %v: the root has %q, %v", mode, data, err)
		}
		if acl, _, err := s.ACL(t.Context(), "/deep/new"); err != nil || ztree.FormatACL(acl) != "world:anyone:cr" {
			t.Errorf("mode %v: the root has the ACL %v, %v", mode, acl, err)
		}
		to = importer(s, "/deep/other")
		to.Existing = mode
		if _, err := read(t, []byte("/a=b=hi\n"), to); err != nil || to.Done != 2 {
			t.Errorf("mode %v: %d znodes of an export without a root, %v", mode, to.Done, err)
		}
	}
}

// What an export does not name stays as it is: the parents of what it has, and ACLs if its format has none.
func TestImportLeavesWhatItDoesNotName(t *testing.T) {
	closed := []zk.ACL{{Scheme: "world", ID: "anyone", Perms: zk.PermAll &^ zk.PermDelete}}
	for mode, want := range map[ztree.Existing]string{ztree.Fail: "", ztree.Skip: "old", ztree.Overwrite: "new"} {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		for path, data := range map[string]string{"/app": "kept", "/app/db": "old"} {
			if path == "/app/db" && mode == ztree.Fail {
				continue
			}
			if err := s.EnsurePath(t.Context(), path, closed); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Set(t.Context(), path, []byte(data), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		if mode == ztree.Fail {
			want = "new"
		}
		to := importer(s, "/")
		to.Existing = mode
		if _, err := read(t, []byte("/app=db=new\n/app/below/it=x=y\n"), to); err != nil {
			t.Fatalf("mode %v: %v", mode, err)
		}
		for path, data := range map[string]string{"/app": "kept", "/app/db": want, "/app/below/it/x": "y"} {
			got, _, err := s.Get(t.Context(), path)
			if string(got) != data || err != nil {
				t.Errorf("mode %v: %s has %q, %v; want %q", mode, path, got, err, data)
			}
			acl, _, err := s.ACL(t.Context(), path)
			if isClosed := ztree.FormatACL(acl) == ztree.FormatACL(closed); err != nil || isClosed != (path == "/app" || path == "/app/db" && mode != ztree.Fail) {
				t.Errorf("mode %v: %s has the ACL %v, %v", mode, path, acl, err)
			}
		}
	}
}

// The root / is always there. It gets data and ACL if it is empty or is to be overwritten, and is never left out silently.
func TestCopyToTheRoot(t *testing.T) {
	closed := []zk.ACL{{Scheme: "world", ID: "anyone", Perms: zk.PermAll &^ zk.PermDelete}}
	for name, test := range map[string]struct {
		plain, used   bool // there is nothing to set; the target has a tree already
		mode          ztree.Existing
		reason        error
		done, skipped int
		set           bool // data and ACL, afterwards
	}{
		"empty":            {done: 2, set: true},
		"empty, skipped":   {mode: ztree.Skip, done: 1, skipped: 1},
		"used":             {used: true, reason: zk.ErrNodeExists},
		"used, skipped":    {used: true, mode: ztree.Skip, done: 1, skipped: 1},
		"used, overwrite":  {used: true, mode: ztree.Overwrite, done: 2, set: true},
		"nothing to set":   {plain: true, used: true, done: 1},
		"nothing, skipped": {plain: true, used: true, mode: ztree.Skip, done: 1},
	} {
		for _, chroot := range []string{"", "/chroot"} {
			t.Run(name+chroot, func(t *testing.T) {
				srv, other := zktest.New(t, zktest.Options{}), zktest.New(t, zktest.Options{})
				from, to := srv.Session(t, "from"), other.Session(t, "to")
				data, acl := []byte("x"), closed
				if test.plain {
					data, acl = nil, nil
				}
				if _, err := from.Create(t.Context(), "/t", data, zk.Persistent, acl); err != nil {
					t.Fatal(err)
				}
				fill(t, from, []string{"/t/a"})
				if chroot != "" {
					fill(t, to, []string{chroot})
					_, err := to.Set(t.Context(), chroot, nil, zk.AnyVersion)
					if err != nil {
						t.Fatal(err)
					}
					if to, err = client.Open(t.Context(), other.Addr()+chroot, client.Options{}); err != nil {
						t.Fatal(err)
					}
					defer to.Close(t.Context())
				}
				if test.used {
					fill(t, to, []string{"/theirs"})
				}
				target := importer(to, "/")
				target.Existing = test.mode
				_, err := ztree.Copy(t.Context(), from, "/t", target)
				if !errors.Is(err, test.reason) || target.Done != test.done || target.Skipped != test.skipped {
					t.Errorf("%d znodes copied, %d skipped, %v", target.Done, target.Skipped, err)
				}
				got, _, err := to.Get(t.Context(), "/")
				if err != nil || (string(got) == "x") != test.set {
					t.Errorf("the root has %q, %v", got, err)
				}
				if acl, _, err := to.ACL(t.Context(), "/"); err != nil || slices.Equal(acl, closed) != test.set {
					t.Errorf("the root has the ACL %v, %v", acl, err)
				}
				if _, there, err := to.Exists(t.Context(), "/a"); err != nil || there != (test.reason == nil) {
					t.Errorf("the znode below is there: %v, %v", there, err)
				}
			})
		}
	}
}

// Below a chroot, /zookeeper belongs to users: it is part of the tree like any other znode.
func TestZookeeperBelowAChroot(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	all := srv.Session(t, "s")
	fill(t, all, []string{"/services", "/services/b", "/services/zookeeper", "/services/zookeeper/a"})
	below, err := client.Open(t.Context(), srv.Addr()+"/services", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close(t.Context())
	if d := differences(t, below, "/", all, "/services"); len(d) > 0 {
		t.Errorf("the tree differs from itself: %q", d)
	}
	var export bytes.Buffer
	if n, _, err := ztree.Export(t.Context(), below, "/", false, &export, nil); n != 4 || err != nil {
		t.Errorf("%d znodes exported, %v", n, err)
	}
	if n, err := ztree.Remove(t.Context(), below, "/", nil); n != 3 || err != nil {
		t.Errorf("%d znodes removed, %v", n, err)
	}
	if d := differences(t, all, "/", all, "/"); len(d) > 0 {
		t.Errorf("without a chroot: %q", d)
	}
}

// A connection that breaks in the middle of a copy is no matter, whether the transaction under way was applied or not.
func TestCopyOverABrokenConnection(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for _, mode := range []ztree.Existing{ztree.Fail, ztree.Skip} {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				from, to := srv.Session(t, "from"), srv.Session(t, "to")
				fill(t, from, bushes())
				target := importer(to, "/copy")
				target.Existing = mode
				breaks := 0
				target.Progress = func(done int) {
					if done/200 > breaks {
						breaks++
						if lose {
							srv.Link("to").LoseAnswer()
						} else {
							srv.Link("to").Cut()
						}
					}
				}
				_, err := ztree.Copy(t.Context(), from, "/t", target)
				if err != nil || breaks < 3 {
					t.Fatalf("a copy over %d broken connections: %v", breaks, err)
				}
				if d := differences(t, from, "/t", to, "/copy"); len(d) > 0 {
					t.Errorf("the copy differs: %q", d)
				}
				if n := len(bushes()); target.Done+target.Skipped != n {
					t.Errorf("%d znodes written, %d skipped, want %d", target.Done, target.Skipped, n)
				}
			})
		}
	}
}

func TestMirror(t *testing.T) {
	srv, other := zktest.New(t, zktest.Options{}), zktest.New(t, zktest.Options{})
	a, b := srv.Session(t, "a"), other.Session(t, "b")
	mixed(t, a)
	var steps []string
	m := ztree.Mirror{From: a, FromRoot: "/t", To: b, ToRoot: "/x/y", Delete: true, Tell: func(s ztree.Step) error {
		steps = append(steps, s.Do+" "+s.Path)
		return nil
	}}
	if _, left, err := m.Run(t.Context()); err != nil || left.Ephemerals != 2 || len(steps) < 1000 {
		t.Fatalf("a plan of %d steps, %v, %v", len(steps), left, err)
	}
	if _, there, _ := b.Exists(t.Context(), "/x"); there {
		t.Error("a plan has changed something")
	}
	m.Apply = true
	if _, _, err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := differences(t, a, "/t", b, "/x/y"); len(d) > 0 {
		t.Errorf("the mirror differs: %q", d)
	}
	if _, err := b.Set(t.Context(), "/x/y/text", []byte("other"), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	fill(t, b, []string{"/x/y/more", "/x/y/more/of it"})
	if _, err := a.SetACL(t.Context(), "/t/empty", zk.ReadOnlyACL(), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if d := differences(t, a, "/t", b, "/x/y"); !slices.Equal(d, []string{"acl/empty", "+/more", "+/more/of it", "~/text"}) {
		t.Errorf("the trees differ in %q", d)
	}
	steps = nil
	if done, _, err := m.Run(t.Context()); err != nil || done != 4 || len(steps) != 4 {
		t.Errorf("the second run has done %d of %q: %v", done, steps, err)
	}
	if d := differences(t, a, "/t", b, "/x/y"); len(d) > 0 {
		t.Errorf("the mirror differs: %q", d)
	}
	// A change of the target meanwhile is not overwritten.
	if _, err := a.Set(t.Context(), "/t/text", []byte("new"), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	m.Tell = func(ztree.Step) error {
		_, err := b.Set(t.Context(), "/x/y/text", []byte("theirs"), zk.AnyVersion)
		return err
	}
	if _, _, err := m.Run(t.Context()); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("a target that changes meanwhile: %v", err)
	}
	if data, _, _ := b.Get(t.Context(), "/x/y/text"); string(data) != "theirs" {
		t.Errorf("it has %q", data)
	}
}

func TestMoveAtOnce(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	fill(t, s, []string{"/a", "/a/x", "/a/x/y", "/b"})
	if n, err := ztree.MoveAtOnce(t.Context(), s, "/a", "/c/d"); n != 3 || err != nil {
		t.Fatalf("%d znodes moved, %v", n, err)
	}
	if got := paths(t, s, "/c/d", ztree.WalkOptions{}); !slices.Equal(got, []string{"/c/d", "/c/d/x", "/c/d/x/y"}) {
		t.Errorf("there are %q", got)
	}
	if _, there, _ := s.Exists(t.Context(), "/a"); there {
		t.Error("the old place is there")
	}
	if _, err := ztree.MoveAtOnce(t.Context(), s, "/c", "/b"); !errors.Is(err, zk.ErrNodeExists) {
		t.Errorf("a move onto what is there: %v", err)
	}
	if _, err := s.Create(t.Context(), "/c/e", nil, zk.Ephemeral, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ztree.MoveAtOnce(t.Context(), s, "/c", "/f"); !errors.Is(err, ztree.ErrEphemerals) {
		t.Errorf("a move of an ephemeral: %v", err)
	}
	fill(t, s, bushes())
	if _, err := ztree.MoveAtOnce(t.Context(), s, "/t", "/u"); !errors.Is(err, ztree.ErrTooLarge) {
		t.Errorf("a move of a large tree: %v", err)
	}
}

// A slow connection delays each request.
type slow struct{ net.Conn }

func (c slow) Write(b []byte) (int, error) {
	time.Sleep(time.Second)
	return c.Conn.Write(b)
}

// A change that the transaction would not see is seen before it.
func TestMoveAtOnceLooksBeforeTheTransaction(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, s *client.Session) error{
		"ACL": func(ctx context.Context, s *client.Session) error {
			_, err := s.SetACL(ctx, "/a/x", zk.ReadOnlyACL(), zk.AnyVersion)
			return err
		},
		"made again": func(ctx context.Context, s *client.Session) error {
			_, err := s.Multi(ctx, client.OpDelete("/a/x", 0), client.OpCreate("/a/x", []byte("new"), zk.Persistent, nil))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				other := srv.Session(t, "other")
				fill(t, other, []string{"/a", "/a/x"})
				s, err := client.Open(t.Context(), zktest.Servers, client.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := srv.Dial(ctx, network, address)
					return slow{c}, err
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close(t.Context())
				_, _, parent, err := other.WatchExists(t.Context(), "/c") // the last that is made before the transaction
				if err != nil {
					t.Fatal(err)
				}
				changed := make(chan error, 1)
				go func() {
					<-parent.Done()
					changed <- change(t.Context(), other)
				}()
				if n, err := ztree.MoveAtOnce(t.Context(), s, "/a", "/c/d"); n != 0 || !errors.Is(err, ztree.ErrChanged) {
					t.Errorf("%d znodes moved, %v", n, err)
				}
				if err := <-changed; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// moved is how a test looks at MoveByCopy: meanwhile is called once, when more than a few znodes have been removed.
func moved(t *testing.T, s *client.Session, meanwhile func()) (int, error) {
	t.Helper()
	once := false
	return ztree.MoveByCopy(t.Context(), s, "/t", "/u", nil, func(int) {
		if !once {
			once = true
			meanwhile()
		}
	})
}

func TestMoveByCopy(t *testing.T) {
	for name, fault := range map[string]func(l *zktest.Link){"none": func(*zktest.Link) {}, "cut": (*zktest.Link).Cut, "lost answer": (*zktest.Link).LoseAnswer} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				s := srv.Session(t, "s")
				fill(t, s, bushes())
				n, err := moved(t, s, func() { fault(srv.Link("s")) })
				if n != len(bushes()) || err != nil {
					t.Fatalf("%d znodes moved, %v", n, err)
				}
				if _, there, err := s.Exists(t.Context(), "/t"); there || err != nil {
					t.Errorf("the old place is there: %v, %v", there, err)
				}
				if got := paths(t, s, "/u", ztree.WalkOptions{}); len(got) != len(bushes()) {
					t.Errorf("there are %d znodes, want %d", len(got), len(bushes()))
				}
			})
		})
	}
}

// What is written to a tree while it is moved stays in it: a change, a new znode, one that was made again, an ACL.
func TestMoveByCopyDeletesOnlyWhatWasCopied(t *testing.T) {
	const leaf, dir = "/t/03/0000", "/t/03" // the removal begins at the other end
	for name, test := range map[string]struct {
		change func(ctx context.Context, s *client.Session) error
		kept   string
		reason error
	}{
		"data": {func(ctx context.Context, s *client.Session) error {
			_, err := s.Set(ctx, dir, []byte("new"), zk.AnyVersion)
			return err
		}, dir, ztree.ErrChanged},
		"ACL": {func(ctx context.Context, s *client.Session) error {
			_, err := s.SetACL(ctx, dir, zk.ReadOnlyACL(), zk.AnyVersion)
			return err
		}, dir, ztree.ErrChanged},
		"made again": {func(ctx context.Context, s *client.Session) error {
			_, err := s.Multi(ctx, client.OpDelete("/t/03/0008", 0), client.OpCreate("/t/03/0008", []byte("new"), zk.Persistent, nil))
			return err
		}, "/t/03/0008", ztree.ErrChanged},
		"deleted": {func(ctx context.Context, s *client.Session) error { return s.Delete(ctx, "/t/03/0008", 0) },
			leaf, ztree.ErrChanged},
		"new": {func(ctx context.Context, s *client.Session) error {
			_, err := s.Create(ctx, dir+"/new", nil, zk.Persistent, nil)
			return err
		}, dir + "/new", zk.ErrNotEmpty},
		"a lock": {func(ctx context.Context, s *client.Session) error {
			_, err := s.Create(ctx, dir+"/lock-", nil, zk.EphemeralSequential, nil)
			return err
		}, dir + "/lock-0000000009", zk.ErrNotEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				s, other := srv.Session(t, "s"), srv.Session(t, "other")
				fill(t, s, bushes())
				n, err := moved(t, s, func() {
					if err := test.change(t.Context(), other); err != nil {
						t.Fatal(err)
					}
				})
				if !errors.Is(err, test.reason) || n == 0 || n >= len(bushes()) || !strings.Contains(err.Error(), "both trees are there: cp --existing overwrite /t /u") {
					t.Errorf("%d znodes removed, %v", n, err)
				}
				if _, there, err := s.Exists(t.Context(), test.kept); !there || err != nil {
					t.Errorf("%s is there: %v, %v", test.kept, there, err)
				}
				if got := paths(t, s, "/u", ztree.WalkOptions{}); len(got) != len(bushes()) {
					t.Errorf("the copy has %d znodes, want %d", len(got), len(bushes()))
				}
			})
		})
	}
}

// A connection that breaks for good while znodes are removed may leave nothing but the copy, which mv then tells no user to
// remove.
func TestMoveByCopyDoesNotGiveUpTheCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, other := srv.Session(t, "s"), srv.Session(t, "other")
		large := bytes.Repeat([]byte("x"), 200<<10)
		for _, path := range []string{"/t", "/t/a", "/t/b"} { // all go at once
			if _, err := s.Create(t.Context(), path, large, zk.Persistent, nil); err != nil {
				t.Fatal(err)
			}
		}
		_, there, w, err := other.WatchExists(t.Context(), "/t")
		if err != nil || !there {
			t.Fatal(there, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			<-w.Done()
			srv.Link("s").Refuse()
			cancel()
		}()
		_, err = ztree.MoveByCopy(ctx, s, "/t", "/u", func(done int) {
			if done == 3 {
				srv.Link("s").LoseAnswer()
			}
		}, nil)
		if err == nil || strings.Contains(err.Error(), "rm -r the copy") {
			t.Errorf("a move whose end is not known: %v", err)
		}
		if got := paths(t, other, "/u", ztree.WalkOptions{}); len(got) != 3 {
			t.Errorf("the copy is %q", got)
		}
	})
}

// A change, or a lock that is taken, while the tree is copied is found before anything is removed.
func TestMoveByCopyComparesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		change func(ctx context.Context, s *client.Session) error
		reason error
	}{
		"data": {func(ctx context.Context, s *client.Session) error {
			_, err := s.Set(ctx, "/t", []byte("new"), zk.AnyVersion)
			return err
		}, ztree.ErrChanged},
		"a lock": {func(ctx context.Context, s *client.Session) error {
			_, err := s.Create(ctx, "/t/00/lock-", nil, zk.EphemeralSequential, nil)
			return err
		}, ztree.ErrEphemerals},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				s, other := srv.Session(t, "s"), srv.Session(t, "other")
				fill(t, s, bushes())
				changed := false
				n, err := ztree.MoveByCopy(t.Context(), s, "/t", "/u", func(int) {
					if !changed {
						changed = true
						if err := test.change(t.Context(), other); err != nil {
							t.Fatal(err)
						}
					}
				}, nil)
				if !errors.Is(err, test.reason) || n != 0 || !strings.Contains(err.Error(), "both trees are there (rm -r the copy /u and try again)") {
					t.Errorf("%d znodes removed, %v", n, err)
				}
				if err := other.Close(t.Context()); err != nil { // with its lock
					t.Fatal(err)
				}
				if got := paths(t, s, "/t", ztree.WalkOptions{}); len(got) != len(bushes()) {
					t.Errorf("%d znodes are left, want %d", len(got), len(bushes()))
				}
			})
		})
	}
}

// FuzzReadExport: whatever a file has in it, reading it ends without a panic.
func FuzzReadExport(f *testing.F) {
	for _, seed := range []string{`{"format":"lockkeeper-tree","version":1}` + "\n" + `{"path":"/a","text":"x"}` + "\n" + `{"end":true,"znodes":1}`, `{"/a":{"content":"aGk=","acls":[{"perms":1,"id":{}}]}}`,
		`[{"h":{"path":"/"},"t":[{}]}]`, "/a=b=c", "\x1f\x8b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ztree.ReadExport(bytes.NewReader(in), func(r ztree.Record) error {
			if err := zk.ValidatePath(r.Path); err != nil {
				t.Errorf("a path that is none is let through: %v", err)
			}
			return nil
		})
	})
}

// Of what was sent at once, one znode is refused: those behind it are counted as well.
func TestACopyThatIsRefusedCountsWhatWasWritten(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s, admin := srv.Session(t, "s"), srv.Session(t, "admin")
	fill(t, s, []string{"/t", "/t/a", "/t/b", "/t/c"})
	fill(t, admin, []string{"/copy", "/copy/a"})
	if _, err := admin.SetACL(t.Context(), "/copy/a", zk.ReadOnlyACL(), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	target := importer(s, "/copy")
	target.Existing = ztree.Overwrite
	_, err := ztree.Copy(t.Context(), s, "/t", target)
	if !errors.Is(err, zk.ErrNoAuth) {
		t.Fatalf("a copy over a znode that may not be written: %v", err)
	}
	if target.Done != 3 {
		t.Errorf("%d znodes are counted, want the root and two", target.Done)
	}
}

// A copy that ends early has written what it had read by then, and says so.
func TestACopyThatEndsEarlyCountsWhatWasWritten(t *testing.T) {
	for name, move := range map[string]bool{"copy": false, "move by copy": true} {
		t.Run(name, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			s := srv.Session(t, "s")
			paths := []string{"/t"}
			for i := range 600 { // more than one transaction has
				paths = append(paths, fmt.Sprintf("/t/%03d", i))
			}
			fill(t, s, paths)
			hidden := append(zk.DigestACL(zk.PermAll, "ann", "secret"), zk.ReadOnlyACL()...)
			if _, err := s.Create(t.Context(), "/t/zz", nil, zk.Persistent, hidden); err != nil {
				t.Fatal(err)
			}
			if move {
				_, err := ztree.MoveByCopy(t.Context(), s, "/t", "/copy", nil, nil)
				if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "znodes copied, and none removed, before that: 601") {
					t.Errorf("the move ends with %v", err)
				}
			} else {
				target := importer(s, "/copy")
				_, err := ztree.Copy(t.Context(), s, "/t", target)
				if !errors.Is(err, zk.ErrNoAuth) || target.Done != 601 {
					t.Errorf("the copy of %d znodes ends with %v", target.Done, err)
				}
			}
			if n := len(srv.Tree("/copy")); n != 601 {
				t.Errorf("%d znodes are there", n)
			}
		})
	}
}

// Where an answer is still missing at the end, it is not known that nothing was written.
func TestACopyWithoutAnAnswerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, other := zktest.New(t, zktest.Options{}), zktest.New(t, zktest.Options{})
		from, to := srv.Session(t, "from"), other.Session(t, "to")
		fill(t, from, []string{"/a", "/b"})
		hidden := append(zk.DigestACL(zk.PermAll, "ann", "secret"), zk.ReadOnlyACL()...)
		if _, err := from.Create(t.Context(), "/zz", nil, zk.Persistent, hidden); err != nil {
			t.Fatal(err)
		}
		other.Link("to").Freeze()
		defer other.Link("to").Heal()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		target := importer(to, "/")
		_, err := ztree.Copy(ctx, from, "/", target)
		part := &ztree.PartError{Did: "copied", Next: "it goes on", Err: err}
		if target.Done != 0 || !strings.Contains(part.Error(), "; nothing has been copied that is known of (it goes on)") {
			t.Errorf("after %d znodes: %v", target.Done, part)
		}
	})
}

// A rate holds from the first znode on: what is less than a transaction does not go at once.
func TestARateHoldsFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		w := &ztree.Writer{S: s, Rate: 20}
		begin := time.Now()
		for i := range 41 {
			if err := w.Create(t.Context(), ztree.Record{Path: fmt.Sprintf("/n%02d", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 1900*time.Millisecond || took > 2200*time.Millisecond {
			t.Errorf("41 znodes at 20 a second took %v", took)
		}
	})
}

// A rate also holds for ACLs, which no transaction sets.
func TestARateHoldsForTheACLsOfAMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "s")
		paths := []string{"/t", "/copy"}
		for i := range 20 {
			paths = append(paths, fmt.Sprintf("/t/n%02d", i), fmt.Sprintf("/copy/n%02d", i))
		}
		fill(t, s, paths)
		for i := range 20 {
			if _, err := s.SetACL(t.Context(), fmt.Sprintf("/t/n%02d", i), zk.ReadOnlyACL(), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		m := ztree.Mirror{From: s, FromRoot: "/t", To: s, ToRoot: "/copy", Apply: true, Rate: 10, Tell: func(ztree.Step) error { return nil }}
		begin := time.Now()
		if done, _, err := m.Run(t.Context()); done != 41 || err != nil {
			t.Fatalf("%d done: %v", done, err)
		}
		if took := time.Since(begin); took < 3800*time.Millisecond || took > 4200*time.Millisecond {
			t.Errorf("21 sets and 20 ACLs at 10 a second took %v", took)
		}
	})
}
