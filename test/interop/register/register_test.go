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

func TestOneAfterAnother(t *testing.T) {
	r := open(t)
	a, b := dial(t, r, "a"), dial(t, r, "b")
	must(t, a.Enter(1))
	must(t, a.Leave())
	must(t, b.Enter(2))
	must(t, b.Leave())
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
	must(t, a.Enter(1))
	must(t, b.Enter(2))
	if f := r.Faults(); len(f) != 1 || !strings.Contains(f[0], "b entered with token 0x2 while a was inside") {
		t.Errorf("faults: %q", f)
	}
}

func TestOldTokenIsFound(t *testing.T) {
	r := open(t)
	a := dial(t, r, "a")
	for _, token := range []int64{2, 2, 1} {
		must(t, a.Enter(token))
		must(t, a.Leave())
	}
	if f := r.Faults(); len(f) != 2 {
		t.Errorf("faults: %q, want two", f)
	}
}

func TestTheDeadAreNotInside(t *testing.T) {
	r := open(t)
	a := dial(t, r, "a")
	must(t, a.Enter(1))
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
