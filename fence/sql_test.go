package fence

import (
	"database/sql"
	"strings"
	"testing"
)

// What is checked in a transaction of its own protects nothing.
func TestTableCheckRefusesADB(t *testing.T) {
	table, err := NewTable(SQLite, "fences")
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Check(t.Context(), new(sql.DB), Claim{"a", 1}); err == nil || !strings.Contains(err.Error(), "needs a transaction") {
		t.Errorf("Check with a *sql.DB = %v", err)
	}
}

// A table that NewTable did not return is refused before the database is asked: drivers panic at its empty statements.
func TestTablesThatWereNotMade(t *testing.T) {
	for what, table := range map[string]*Table{"nil": nil, "zero": {}} {
		_, newest := table.Newest(t.Context(), nil, "a")
		for method, err := range map[string]error{
			"Check":  table.Check(t.Context(), nil, Claim{"a", 1}),
			"Do":     table.Do(t.Context(), nil, Claim{"a", 1}, nil),
			"Newest": newest,
		} {
			if err == nil || !strings.Contains(err.Error(), "NewTable") {
				t.Errorf("%s of a table that is %s = %v", method, what, err)
			}
		}
	}
}
