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
		if got := ParseRecord([]byte(c.text)).Owner; got != c.owner {
			t.Errorf("the owner of %s is %+v, want %+v", c.text, got, c.owner)
		}
	}
}

// What other clients write is not an owner, and no reason to fail.
func TestParseForeignOwner(t *testing.T) {
	for _, text := range []string{"", "192.168.0.1", "null", "[]", `"a"`, "{", `{"pid":"x"}`, `{"pid":1e99}`, `{"zone":"b"}`, "\xff\x00", strings.Repeat("[", 1<<16)} {
		if o := ParseRecord([]byte(text)).Owner; o != (Owner{}) {
			t.Errorf("the owner of %.20q is %+v, want none", text, o)
		}
	}
	if o := ParseRecord([]byte(`{"host":"h","zone":"b"}`)).Owner; o.Host != "h" {
		t.Errorf("a field that we do not know hides the others: %+v", o)
	}
}
