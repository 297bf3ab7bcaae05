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
