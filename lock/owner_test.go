package lock

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

func TestOwner(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 30, 0, 5e6, time.UTC)
	for _, c := range []struct {
		owner Owner
		text  string
	}{
		{Owner{}, `{}`},
		{Owner{Host: "a", PID: 7, Space: "1f", Program: "p", Since: since, Label: `l "q"`},
			`{"host":"a","pid":7,"space":"1f","program":"p","since":"2026-03-01T12:30:00.005Z","label":"l \"q\""}`},
		{Owner{Label: "только"}, `{"label":"только"}`},
	} {
		if got := string(record{Owner: c.owner}.encode()); got != c.text {
			t.Errorf("encode(%+v) = %s, want %s", c.owner, got, c.text)
		}
		if got, ok := parseOwner([]byte(c.text)); got != c.owner || ok != (c.owner != Owner{}) {
			t.Errorf("parseOwner(%s) = %+v, %v, want %+v", c.text, got, ok, c.owner)
		}
	}
}

// What other clients write is not an owner, and no reason to fail.
func TestParseForeignOwner(t *testing.T) {
	for _, text := range []string{"", "192.168.0.1", "null", "[]", `"a"`, "{", `{"pid":"x"}`, `{"pid":1e99}`, `{"zone":"b"}`, "\xff\x00", strings.Repeat("[", 1<<16)} {
		if o, ok := parseOwner([]byte(text)); ok || o != (Owner{}) {
			t.Errorf("parseOwner(%.20q) = %+v, %v, want nothing", text, o, ok)
		}
	}
	if o, ok := parseOwner([]byte(`{"host":"h","zone":"b"}`)); !ok || o.Host != "h" {
		t.Errorf("a field that we do not know hides the others: %+v, %v", o, ok)
	}
}

func TestOwnerOfImpossibleTime(t *testing.T) {
	o := Owner{Since: time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)}
	if got := (record{Owner: o}).encode(); got != nil {
		t.Errorf("encode of the year 10001 = %s, want nothing", got)
	}
}

func TestOptionsOwner(t *testing.T) {
	for _, c := range []struct {
		opt Options
		pid int
	}{
		{Options{Label: "nightly"}, os.Getpid()},
		{Options{Label: "nightly", PID: 4711}, 4711},
	} {
		o := c.opt.Owner()
		if o.PID != c.pid || o.Label != "nightly" || o.Program == "" || strings.ContainsAny(o.Program, `/\`) {
			t.Errorf("owner of %+v = %+v, want process %d", c.opt, o, c.pid)
		}
	}
}

// What does not change is encoded once, and says the same.
func TestNodeData(t *testing.T) {
	opt := Options{Label: `l "q"}`, PID: 4711}
	e := newEntrance(nil, "/l", opt, &mutexRecipe)
	for _, r := range []record{{}, passing, {ID: "1f"}, {Under: []string{"/a", "/b"}, Yields: true}} {
		before := time.Now().Truncate(time.Millisecond)
		data := e.nodeData(r)
		got := parseRecord(data)
		if got.Since.Before(before) || got.Since.After(time.Now()) {
			t.Errorf("%s: since %v, want now, in milliseconds", data, got.Since)
		}
		r.Owner, r.Since = opt.Owner(), got.Since
		if want := string(r.encode()); string(got.encode()) != want {
			t.Errorf("nodeData = %s, want what %s says", data, want)
		}
	}
	opt.Data = []byte("127.0.0.1")
	if got := newEntrance(nil, "/l", opt, &mutexRecipe).nodeData(passing); string(got) != "127.0.0.1" {
		t.Errorf("nodeData with Options.Data = %s", got)
	}
}

func TestContenderSide(t *testing.T) {
	for name, shared := range map[string]bool{
		"/l/_c_0123456789abcdef0123456789abcdef-lock-0000000001":    false,
		"/l/_c_0123456789abcdef0123456789abcdef-__WRIT__0000000001": false,
		"/l/_c_0123456789abcdef0123456789abcdef-__READ__0000000001": true,
		"/l/0123456789abcdef0123456789abcdef__rlock__-2147483648":   true,
		"/l/_c_0123456789abcdef0123456789abcdef-lease-0000000001":   false,
	} {
		if got := newContender(name, client.Node{}).Shared; got != shared {
			t.Errorf("%s: Shared is %v", name, got)
		}
	}
}

func TestWho(t *testing.T) {
	for _, c := range []struct {
		contender Contender
		want      string
	}{
		{Contender{}, ""},
		{Contender{Node: "/l/n", Session: 0x10}, "session 0x10"},
		{Contender{Node: "/l/n", Session: -1<<63 + 0x10}, "session 0x8000000000000010"}, // of a server whose number is 128
		{Contender{Node: "/l/n", Owner: Owner{Program: "p", PID: 3, Host: "h", Label: "l"}}, "p pid 3 on h (l)"},
		{Contender{Node: "/l/n", Owner: Owner{Label: "l"}}, "(l)"},
	} {
		if got := c.contender.Who(); got != c.want {
			t.Errorf("Who of %+v = %q, want %q", c.contender, got, c.want)
		}
	}
}
