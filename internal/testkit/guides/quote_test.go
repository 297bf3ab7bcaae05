package guides

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const docs = "../../../docs/"

// Before each block of code the guide names its source in a comment: functions of this package, or a file of this
// repository.
const (
	functionMark = "<!-- func "
	fileMark     = "<!-- file "
	markEnd      = " -->"
)

// A block is one of code, with the line before it.
type block struct {
	line       int
	mark, text string
}

// blocks returns the fenced blocks of a guide.
func blocks(t *testing.T, guide string) []block {
	t.Helper()
	content, err := os.ReadFile(guide)
	must(t, err)
	var all []block
	lines := strings.Split(string(content), "\n")
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "```") {
			continue
		}
		b := block{line: i + 1, mark: lines[max(i-1, 0)]}
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			b.text += lines[i] + "\n"
		}
		all = append(all, b)
	}
	return all
}

// functions returns the functions of a file as they stand there, by name; those of tests are left out.
func functions(t *testing.T, file string) map[string]string {
	t.Helper()
	source, err := os.ReadFile(file)
	must(t, err)
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, file, source, 0)
	must(t, err)
	found := map[string]string{}
	for _, d := range syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || takesT(f) {
			continue
		}
		found[f.Name.Name] = string(source[fset.Position(f.Pos()).Offset:fset.Position(f.End()).Offset]) + "\n"
	}
	return found
}

// takesT reports whether a function is a test or helps one.
func takesT(f *ast.FuncDecl) bool {
	for _, p := range f.Type.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok {
			if sel, ok := star.X.(*ast.SelectorExpr); ok && sel.Sel.Name == "T" {
				return true
			}
		}
	}
	return false
}

// guides are the documents, with the files of this package that they show.
var guides = map[string][]string{
	"migrate.md": {"gozookeeper_test.go", "curator_test.go", "kazoo_test.go"},
	"roles.md":   {"roles_test.go"},
}

// What the guides show as ours compiles here, and all functions that are here are shown.
func TestTheGuidesQuoteWhatCompiles(t *testing.T) {
	for guide, files := range guides {
		ours := map[string]string{}
		for _, file := range files {
			maps.Copy(ours, functions(t, file))
		}
		quotes(t, guide, ours)
	}
}

// quotes looks whether a guide shows all functions as they are, and nothing else.
func quotes(t *testing.T, guide string, ours map[string]string) {
	t.Helper()
	quoted := map[string]bool{}
	for _, b := range blocks(t, docs+guide) {
		switch name, isFunction := strings.CutPrefix(b.mark, functionMark); {
		case isFunction:
			names := strings.Fields(strings.TrimSuffix(name, markEnd))
			var want []string
			for _, n := range names {
				want = append(want, ours[n])
				quoted[n] = true
			}
			if b.text != strings.Join(want, "\n") {
				t.Errorf("%s:%d: the block for %q differs from the tests' functions", guide, b.line, names)
			}
		case strings.HasPrefix(b.mark, fileMark):
			name := strings.TrimSuffix(strings.TrimPrefix(b.mark, fileMark), markEnd)
			source, err := os.ReadFile(filepath.Join("../../..", name))
			must(t, err)
			if !strings.Contains(string(source), b.text) {
				t.Errorf("%s:%d: the block is no part of %s", guide, b.line, name)
			}
		default:
			t.Errorf("%s:%d: a block of code needs a line before it that names its source", guide, b.line)
		}
	}
	for name := range ours {
		if !quoted[name] {
			t.Errorf("%s does not show %s", guide, name)
		}
	}
}
