package arch

import (
	"go/ast"
	"path"
	"testing"
)

// What users are shown they must be able to make: a field of an internal type is one that they cannot set.
func TestUsersAreShownNoInternalTypes(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || !under(f.pkg, "zk", "client", "lock", "election", "fence", "cache", "group", "counter", "barrier", "config", "discovery", "partition", "server", "zktest") {
			continue
		}
		internal := map[string]bool{} // packages, by the name that they have in the file
		for _, p := range f.imports {
			if folder, ok := ours(p); ok && under(folder, "internal") {
				internal[path.Base(p)] = true
			}
		}
		for _, d := range f.syntax.Decls {
			for _, shown := range surface(d) {
				hidden := map[ast.Node]bool{}
				ast.Inspect(shown, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.StructType:
						for _, field := range n.Fields.List {
							hidden[field] = len(field.Names) > 0 && !exported(field.Names)
						}
					case *ast.SelectorExpr:
						if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] {
							t.Errorf("%s shows its users %s.%s, a type that they cannot name", f.path, x.Name, n.Sel.Name)
						}
					}
					return !hidden[n]
				})
			}
		}
	}
}

// surface returns the types that a declaration shows to users of its package.
func surface(d ast.Decl) (types []ast.Node) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Recv != nil && !exportedReceiver(d.Recv) {
			return nil
		}
		for _, list := range []*ast.FieldList{d.Type.Params, d.Type.Results} {
			for i := 0; list != nil && i < len(list.List); i++ {
				types = append(types, list.List[i].Type)
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					types = append(types, spec.Type)
				}
			case *ast.ValueSpec:
				if spec.Type != nil && exported(spec.Names) {
					types = append(types, spec.Type)
				}
			}
		}
	}
	return types
}

func exported(names []*ast.Ident) bool {
	for _, n := range names {
		if n.IsExported() {
			return true
		}
	}
	return false
}

func exportedReceiver(list *ast.FieldList) bool {
	shown := false
	ast.Inspect(list.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() {
			shown = true
		}
		return !shown
	})
	return shown
}
