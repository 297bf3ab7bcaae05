package fence

import (
	"errors"
	"strings"
	"testing"
)

func TestClaimCheck(t *testing.T) {
	for _, tt := range []struct {
		claim Claim
		ok    bool
	}{
		{Claim{"/locks/nightly", 1}, true},
		{Claim{"Rücklauf 7", 1<<63 - 1}, true},
		{Claim{strings.Repeat("a", ResourceBytesMax), 1}, true},
		{Claim{strings.Repeat("a", ResourceBytesMax+1), 1}, false},
		{Claim{"", 1}, false},
		{Claim{"a", 0}, false},
		{Claim{"a", -1}, false},
		{Claim{"a\x00", 1}, false}, // PostgreSQL has no such text
		{Claim{"a\n", 1}, false},
		{Claim{"\xff", 1}, false},
		{Claim{" a", 1}, false}, // HTTP would lose the space
	} {
		if err := tt.claim.Check(); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q, %d: %v, want ok %v", tt.claim.Resource, tt.claim.Token, err, tt.ok)
		}
	}
}

func TestTableNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"fences": true, "app.fences_2": true, "_f": true, strings.Repeat("a", 63): true,
		"": false, "a b": false, "a;b": false, `a"b`: false, "A": false, "1a": false, "a.b.c": false, ".a": false,
		"a\n": false, strings.Repeat("a", 64): false,
	} {
		for _, d := range []Dialect{PostgreSQL, SQLite} {
			if _, err := NewTable(d, name); (err == nil) != ok {
				t.Errorf("NewTable(%v, %q): %v, want ok %v", d, name, err, ok)
			}
		}
	}
	for name, d := range map[string]Dialect{"temp.fences": SQLite, "pg_temp.fences": PostgreSQL} {
		if _, err := NewTable(d, name); err == nil || !strings.Contains(err.Error(), "one connection") {
			t.Errorf("NewTable(%v, %q): %v, want an error: another connection would let an older token in", d, name, err)
		}
	}
	for name, d := range map[string]Dialect{"temp.fences": PostgreSQL, "temp": SQLite} {
		if _, err := NewTable(d, name); err != nil {
			t.Errorf("NewTable(%v, %q): %v, which is a name like others", d, name, err)
		}
	}
	if _, err := NewTable(7, "a"); err == nil {
		t.Error("a dialect that there is not")
	}
}
