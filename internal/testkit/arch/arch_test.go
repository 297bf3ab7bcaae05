package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/lockkeeper/lockkeeper"

// A file is a source file of the root module, with what the rules look at.
type file struct {
	path    string // from the module's root, with slashes
	pkg     string // folder, from the module's root
	test    bool
	imports []string
	syntax  *ast.File
	fset    *token.FileSet
}

// sources returns every Go file of the root module. Nested modules have rules of their own.
func sources(t *testing.T) []file {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("found %d files: this test does not see the house", len(files))
	}
	return files
}

// parsed reads the files once for all rules.
var parsed = sync.OnceValues(func() (files []file, err error) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); name != root && err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f := file{path: filepath.ToSlash(rel), syntax: syntax, fset: fset, test: strings.HasSuffix(name, "_test.go")}
		f.pkg = path.Dir(f.path)
		for _, spec := range syntax.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, p)
		}
		files = append(files, f)
		return nil
	})
	return files, err
})

// under reports whether pkg is one of folders or lies below one.
func under(pkg string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return pkg == f || strings.HasPrefix(pkg, f+"/") })
}

// ours turns an import path into a folder of the module; ok is false for other modules'.
func ours(importPath string) (folder string, ok bool) {
	return strings.CutPrefix(importPath, module+"/")
}

// standard reports whether an import path is the standard library's.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// pure packages are functions of their inputs. What owns a clock, a socket or a disk calls them.
var pure = []string{"zk", "internal/wire", "internal/lease", "lock/internal/queue", "internal/server/txn", "internal/server/tree", "internal/server/session", "internal/server/watch", "internal/server/slab", "internal/server/measure"}

// Pure code is what can be replayed, simulated and tested as arithmetic: the same inputs give the same
// result on every server, in every replay. One look at a clock ends that.
func TestPureCodeKnowsNoWorld(t *testing.T) {
	world := []string{"net", "os", "syscall", "math/rand", "math/rand/v2", "crypto/rand", "context", "log", "log/slog", "reflect"}
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	for _, f := range sources(t) {
		if f.test || !under(f.pkg, pure...) {
			continue
		}
		for _, p := range f.imports {
			if under(p, world...) && p != "net/netip" { // addresses are values; they reach nothing
				t.Errorf("%s imports %s: the package is pure, its caller has the world", f.path, p)
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s uses time.%s: in pure code, time is an argument", f.path, n.Sel.Name)
				}
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: pure code has none", f.path)
			}
			return true
		})
	}
}

func TestWhoMayLeanOnWhom(t *testing.T) {
	roles := []string{"cache", "group", "counter", "barrier", "config", "discovery", "partition"}
	library := append([]string{"zk", "client", "lock", "election", "fence", "internal/presence", "internal/operr"}, roles...)
	for _, rule := range []struct {
		in     []string
		except []string
		allow  func(folder string) bool // imports of ours
		why    string
	}{
		{in: []string{"zk"}, allow: func(string) bool { return false },
			why: "zk is the vocabulary: it imports nothing of ours"},
		{in: []string{"internal/wire"}, allow: func(f string) bool { return f == "zk" },
			why: "the wire format knows only the words"},
		{in: library, allow: func(f string) bool {
			return under(f, library...) || f == "internal/wire" || f == "internal/clock" || f == "internal/lease" || f == "internal/serverlist" || f == "internal/ending" || f == "internal/bridge" || f == "internal/socket"
		}, why: "the library does not import the server, the command or what is for tests: users link it alone"},
		{in: []string{"internal/socket"}, allow: func(string) bool { return false },
			why: "how a socket is read has nothing to do with what is sent"},
		{in: []string{"client"}, allow: func(f string) bool { return !under(f, "lock", "election") && !under(f, roles...) },
			why: "the client does not know the locks"},
		{in: roles, allow: func(f string) bool {
			return under(f, "zk", "client", "cache", "internal/ending", "internal/operr", "internal/presence")
		}, except: []string{"partition"}, why: "each role stands on the client, and at most on the cache"},
		{in: []string{"partition"}, allow: func(f string) bool {
			return under(f, "zk", "client", "cache", "group", "lock", "internal/bridge", "internal/ending", "internal/operr")
		}, why: "items are shared out among members of a group, each under its lock"},
		{in: []string{"fence"}, allow: func(f string) bool { return f == "internal/ending" || f == "internal/bridge" },
			why: "a resource that checks tokens needs no client"},
		{in: []string{"lock/internal/queue"}, allow: func(f string) bool { return f == "zk" },
			why: "the rules of the locks are functions of names and data: what reads and writes them is elsewhere"},
		{in: []string{"lock"}, except: []string{"lock/inspect"}, allow: func(f string) bool { return f != "lock/inspect" },
			why: "taking a lock does not need the operator's view of it; what both need is in lock/internal"},
		{in: []string{"lock/inspect"}, allow: func(f string) bool { return f != "lock" },
			why: "looking at a lock needs the rules, and not the way to a hold"},
		{in: []string{"server", "internal/server"}, allow: func(f string) bool { return !under(f, "client", "lock", "election", "cmd") && !under(f, roles...) },
			why: "the server does not know its clients"},
		{in: []string{"internal/server/tree", "internal/server/session", "internal/server/watch", "internal/server/txn"},
			allow: func(f string) bool {
				return under(f, "zk", "internal/wire", "internal/server/txn", "internal/server/slab")
			},
			why: "the pure parts of the server know the words and the transactions, not each other"},
		{in: []string{"internal/server/store"}, allow: func(f string) bool { return under(f, "zk", "internal/wire", "internal/vfs", "internal/server/txn") },
			why: "the store keeps transactions and snapshots; what they mean is the tree's"},
		{in: []string{"."}, except: []string{"internal/testkit", "zktest", "test", "cmd/lockkeeper/internal/ptytest"},
			allow: func(f string) bool {
				return !under(f, "internal/testkit")
			},
			why: "what breaks things on purpose is for tests"},
	} {
		for _, f := range sources(t) {
			if f.test || rule.in[0] != "." && !under(f.pkg, rule.in...) || under(f.pkg, rule.except...) {
				continue
			}
			for _, p := range f.imports {
				if folder, ok := ours(p); ok && folder != f.pkg && !rule.allow(folder) {
					t.Errorf("%s imports %s: %s", f.path, p, rule.why)
				}
			}
		}
	}
}

// A library's dependencies become its users'. The command is ours alone and may use what serves it.
func TestLibrariesUseTheStandardLibrary(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || under(f.pkg, "cmd") {
			continue
		}
		for _, p := range f.imports {
			if _, ok := ours(p); !ok && !standard(p) {
				t.Errorf("%s imports %s: outside cmd/, packages need nothing but Go", f.path, p)
			}
		}
	}
}

// A mistake with unsafe corrupts memory far away, so a reviewer knows where to look: system calls, and what holds many strings.
func TestWhoMayBeUnsafe(t *testing.T) {
	for _, f := range sources(t) {
		if !f.test && !under(f.pkg, "internal/socket", "internal/clock", "internal/wire", "internal/server/tree", "cmd") && slices.Contains(f.imports, "unsafe") {
			t.Errorf("%s imports unsafe: only system calls and what holds many strings need it", f.path)
		}
	}
}

// A write that does not go through vfs is one that no test can break.
func TestOneDoorToTheDisk(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || !under(f.pkg, "internal/server/store") {
			continue
		}
		for _, p := range f.imports {
			if p == "os" || p == "syscall" {
				t.Errorf("%s imports %s: internal/vfs is the only door to the disk", f.path, p)
			}
		}
	}
}

// The package comment is where a reader begins.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]int{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		said[f.pkg] += 0
		if f.syntax.Doc != nil && len(f.syntax.Doc.Text()) > 40 {
			said[f.pkg]++
		}
	}
	for pkg, n := range said {
		if n != 1 {
			t.Errorf("package %s has %d package comments, want 1", pkg, n)
		}
	}
}

// Tests must not pass by not running.
func TestNoTestSkips(t *testing.T) {
	for _, f := range sources(t) {
		if !f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "tb") {
					t.Errorf("%s calls %s.%s: a check that passes by skipping is none", f.path, x.Name, sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// What changes something stands on a line of its own and not in the header of an if or a switch, but for an error that is tested.
func TestHeadersHaveNoSideEffects(t *testing.T) {
	for _, f := range sources(t) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			var init ast.Stmt
			switch n := n.(type) {
			case *ast.IfStmt:
				init = n.Init
			case *ast.SwitchStmt:
				init = n.Init
			}
			if changes(init) {
				t.Errorf("%s: a header changes something: %s", f.path, f.fset.Position(n.Pos()))
			}
			return true
		})
	}
}

// changes reports whether a statement changes something besides a variable that it declares or an error.
func changes(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IncDecStmt, *ast.ExprStmt, *ast.SendStmt:
		return true
	case *ast.AssignStmt:
		isError := func(e ast.Expr) bool {
			id, ok := e.(*ast.Ident)
			return ok && (id.Name == "err" || strings.HasSuffix(id.Name, "Err"))
		}
		return s.Tok != token.DEFINE && !slices.ContainsFunc(s.Lhs, isError)
	}
	return false
}

// A call of a recipe that ends with its context returns ending.Of, in which errors.Is finds the context's error and no server's answer to
// another request, as the cause alone may be one. A method called Cause returns that.
func TestEndsOfContextsAreNoAnswers(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || !under(f.pkg, "lock", "election", "barrier", "cache", "config", "counter", "discovery", "group", "partition") {
			continue
		}
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name == "Cause" {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				returned, ok := n.(*ast.ReturnStmt)
				if !ok {
					return true
				}
				for _, e := range returned.Results {
					if call, ok := e.(*ast.CallExpr); ok && isCause(call) {
						t.Errorf("%s: a cause is returned as it is (want ending.Of): %s", f.path, f.fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

// isCause reports whether a call is context.Cause(ctx), of a parameter or the like; that of a field is what a hold or a term ends with.
func isCause(call *ast.CallExpr) bool {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || fun.Sel.Name != "Cause" || len(call.Args) != 1 {
		return false
	}
	pkg, ok := fun.X.(*ast.Ident)
	_, variable := call.Args[0].(*ast.Ident)
	return ok && pkg.Name == "context" && variable
}

// docs/ARCHITECTURE.md names each package.
func TestEveryPackageIsNamed(t *testing.T) {
	page, err := os.ReadFile("../../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "## Packages\n")
	_, list, _ = strings.Cut(list, "```\n")
	list, _, _ = strings.Cut(list, "```\n")
	if len(list) < 1000 {
		t.Fatal("this test does not see the list")
	}
	names := strings.FieldsFunc(list, func(c rune) bool { return c < 'a' || c > 'z' })
	for _, f := range sources(t) {
		if !slices.Contains(names, path.Base(f.pkg)) {
			t.Errorf("%s is not named in docs/ARCHITECTURE.md", f.pkg)
		}
	}
}
