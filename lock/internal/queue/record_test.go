package queue

import (
	"strings"
	"testing"
)

func TestOwner(t *testing.T) {
	for _, c := range []struct {
		owner Owner
		text  string
	}{
		{Owner{}, `{}`},
		{Owner{Host: "a", PID: 7, Space: "1f", Program: "p", Label: `l "q"`},
			`{"host":"a","pid":7,"space":"1f","program":"p","label":"l \"q\""}`},
		{Owner{Label: "только"}, `{"label":"только"}`},
	} {
		if got := string(Record{Owner: c.owner}.Encode()); got != c.text {
			t.Errorf("encode(%+v) = %s, want %s", c.owner, got, c.text)
		}
		if got, ok := ParseOwner([]byte(c.text)); got != c.owner || ok != (c.owner != Owner{}) {
			t.Errorf("parseOwner(%s) = %+v, %v, want %+v", c.text, got, ok, c.owner)
		}
	}
}

// What other clients write is not an owner, and no reason to fail.
func TestParseForeignOwner(t *testing.T) {
	for _, text := range []string{"", "192.168.0.1", "null", "[]", `"a"`, "{", `{"pid":"x"}`, `{"pid":1e99}`, `{"zone":"b"}`, "\xff\x00", strings.Repeat("[", 1<<16)} {
		if o, ok := ParseOwner([]byte(text)); ok || o != (Owner{}) {
			t.Errorf("parseOwner(%.20q) = %+v, %v, want nothing", text, o, ok)
		}
	}
	if o, ok := ParseOwner([]byte(`{"host":"h","zone":"b"}`)); !ok || o.Host != "h" {
		t.Errorf("a field that we do not know hides the others: %+v, %v", o, ok)
	}
}
