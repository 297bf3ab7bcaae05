package register

import (
	"strings"
	"testing"
)

func open(t *testing.T) *Register {
	r, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func dial(t *testing.T, r *Register, name string) *Client {
	c, err := Dial(r.Addr(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const here = "/here"

func alone(token int64) Entry { return Entry{Place: here, Token: token, Limit: 1} }

func shared(token int64, limit int) Entry { return Entry{Place: here, Token: token, Limit: limit} }

func TestOneAfterAnother(t *testing.T) {
	r := open(t)
	a, b := dial(t, r, "a"), dial(t, r, "b")
	must(t, a.Enter(alone(1)))
	must(t, a.Leave(here))
	must(t, b.Enter(alone(2)))
	must(t, b.Leave(here))
	if f := r.Faults(); f != nil {
		t.Errorf("faults: %v", f)
	}
	if v := r.Visits(); len(v) != 2 || v[0].Name != "a" || v[1].Token != 2 || v[0].Leave.After(v[1].Enter) {
		t.Errorf("visits: %+v", v)
	}
}

func TestOverlapIsFound(t *testing.T) {
	r := open(t)
	a, b := dial(t, r, "a"), dial(t, r, "b")
	must(t, a.Enter(alone(1)))
	must(t, b.Enter(alone(2)))
	if f := r.Faults(); len(f) != 1 || !strings.Contains(f[0], "b entered /here with token 0x2 while a was inside") {
		t.Errorf("faults: %q", f)
	}
}

func TestOldTokenIsFound(t *testing.T) {
	r := open(t)
	a := dial(t, r, "a")
	for _, token := range []int64{2, 2, 1} {
		must(t, a.Enter(alone(token)))
		must(t, a.Leave(here))
	}
	if f := r.Faults(); len(f) != 2 {
		t.Errorf("faults: %q, want two", f)
	}
}

func TestTheDeadAreNotInside(t *testing.T) {
	r := open(t)
	a := dial(t, r, "a")
	must(t, a.Enter(alone(1)))
	_, changed := r.Inside()
	a.Close()
	<-changed
	if names, _ := r.Inside(); len(names) != 0 {
		t.Errorf("inside: %v", names)
	}
	if v := r.Visits(); len(v) != 1 || !v[0].Died {
		t.Errorf("visits: %+v", v)
	}
}

func TestPlacesAreApart(t *testing.T) {
	r := open(t)
	a, b := dial(t, r, "a"), dial(t, r, "b")
	must(t, a.Enter(alone(2)))
	must(t, b.Enter(Entry{Place: "/there", Token: 1, Limit: 1}))
	must(t, a.Enter(Entry{Place: "/elsewhere", Token: 1, Limit: 1}))
	if names, _ := r.Inside(); len(names) != 2 {
		t.Errorf("inside: %q, want a and b", names)
	}
	must(t, a.Leave("/elsewhere"))
	must(t, a.Leave(here))
	must(t, b.Leave("/there"))
	if f := r.Faults(); f != nil {
		t.Errorf("faults: %v", f)
	}
}

// Those that share may come in any order, but for those that must be alone.
func TestSharing(t *testing.T) {
	r := open(t)
	a, b, c := dial(t, r, "a"), dial(t, r, "b"), dial(t, r, "c")
	must(t, a.Enter(shared(3, Unlimited)))
	must(t, b.Enter(shared(2, Unlimited)))
	if f := r.Faults(); f != nil {
		t.Fatalf("faults: %v", f)
	}
	must(t, c.Enter(alone(4)))
	if f := r.Faults(); len(f) != 2 || !strings.Contains(f[0], "c entered /here with token 0x4 while ") {
		t.Fatalf("faults: %q, want one with each reader", f)
	}
	for _, leaver := range []*Client{a, b, c} {
		must(t, leaver.Leave(here))
	}
	must(t, a.Enter(shared(3, Unlimited)))
	if f := r.Faults(); len(f) != 3 || !strings.Contains(f[2], "a entered /here with token 0x3 after c had entered with 0x4") {
		t.Errorf("faults: %q, want the reader that a writer was let in before", f)
	}
	if v := r.Visits(); v[0].Together != 1 || v[1].Together != 2 || v[2].Together != 3 {
		t.Errorf("visits: %+v", v)
	}
}

func TestWriterBeforeAReader(t *testing.T) {
	r := open(t)
	a, b := dial(t, r, "a"), dial(t, r, "b")
	must(t, a.Enter(shared(3, Unlimited)))
	must(t, a.Leave(here))
	must(t, b.Enter(alone(2)))
	if f := r.Faults(); len(f) != 1 {
		t.Errorf("faults: %q, want the writer that a reader was let in before", f)
	}
}

func TestOneTooMany(t *testing.T) {
	r := open(t)
	a, b, c := dial(t, r, "a"), dial(t, r, "b"), dial(t, r, "c")
	must(t, a.Enter(shared(1, 2)))
	must(t, b.Enter(shared(2, 2)))
	if f := r.Faults(); f != nil {
		t.Fatalf("faults: %v", f)
	}
	must(t, c.Enter(shared(3, 2)))
	if f := r.Faults(); len(f) != 2 {
		t.Errorf("faults: %q, want one with each other", f)
	}
}
