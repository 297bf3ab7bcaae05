package lock_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/lock"
)

// The comments of types that are declared elsewhere name all fields, which documentation does not show of an alias.
func TestTheFieldsOfAliasesAreNamed(t *testing.T) {
	for file, types := range map[string][]reflect.Type{
		"errors.go":   {reflect.TypeFor[lock.Contender]()},
		"owner.go":    {reflect.TypeFor[lock.Owner]()},
		"deadlock.go": {reflect.TypeFor[lock.Wait]()},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range types {
			_, comment, _ := strings.Cut(string(text), typ.Name()+" is ")
			_, comment, found := strings.Cut("// "+comment, "// ")
			comment, _, ended := strings.Cut(comment, "\ntype "+typ.Name()+" = ")
			if !found || !ended {
				t.Fatalf("%s has no comment of %s", file, typ.Name())
			}
			for _, f := range reflect.VisibleFields(typ) {
				if !strings.Contains(comment, f.Name) {
					t.Errorf("%s: the comment of %s does not name %s", file, typ.Name(), f.Name)
				}
			}
		}
	}
}
