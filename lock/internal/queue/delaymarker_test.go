package queue

import (
	"slices"
	"testing"
	"time"
)

func TestOrphans(t *testing.T) {
	const (
		a = "00000000000000000000000000000001"
		b = "00000000000000000000000000000002"
	)
	for _, c := range []struct {
		what  string
		names []string
		want  []string
	}{
		{"an empty directory", nil, nil},
		{"a holder", []string{"_c_" + a + "-lock-0000000001", "_c_" + a + "-held"}, nil},
		{"a lost holder", []string{"_c_" + b + "-lock-0000000001", "_c_" + a + "-held", "_c_" + b + "-held"}, []string{"_c_" + a + "-held"}},
		{"a writer that reads now", []string{"_c_" + a + "-__READ__0000000001", "_c_" + a + "-held"}, nil},
		{"a lost writer and a reader", []string{"_c_" + a + "-held"}, []string{"_c_" + a + "-held"}},
		{"a release marker is no claim", []string{"_c_" + a + "-released", "_c_" + a + "-held"}, []string{"_c_" + a + "-held"}},
		{"a marker of readers, of an earlier version", []string{"_c_" + a + "-held-shared"}, nil},
		{"names of others", []string{"held", "_c_-held", "_c_" + a + "-held-", a + "-held", "_c_" + a + "_held", "_c_"}, nil},
	} {
		if got := Orphans(c.names); !slices.Equal(got, c.want) {
			t.Errorf("%s: orphans %v, want %v", c.what, got, c.want)
		}
	}
	name := ID(a).DelayMarker()
	if id, ok := IDOf(name); !ok || id != a {
		t.Errorf("IDOf(%s) = %s, %v", name, id, ok)
	}
	if _, _, ok := ParseName(name); ok {
		t.Errorf("%s is taken for a place in the queue", name)
	}
}

func TestDelayOf(t *testing.T) {
	const ours = 7 * time.Second
	for data, want := range map[string]time.Duration{
		`{"delay_ms":1500}`:                1500 * time.Millisecond,
		`{"delay_ms":9223372036854775807}`: DelayMax,
		`{"delay_ms":0}`:                   ours,
		`{"delay_ms":-5}`:                  ours,
		`{"delay_ms":"x"}`:                 ours,
		`null`:                             ours,
		``:                                 ours,
	} {
		if got := DelayOf([]byte(data), ours); got != want {
			t.Errorf("delayOf(%s) = %v, want %v", data, got, want)
		}
	}
}

// A marker never asks for less than the holder's delay.
func TestEncodeDelay(t *testing.T) {
	for _, delay := range []time.Duration{1, time.Millisecond, 1999 * time.Microsecond, DelayMax - 1, DelayMax} {
		if got := DelayOf(EncodeDelay(delay), 0); got < delay || got >= delay+time.Millisecond {
			t.Errorf("the marker of a delay of %v asks for %v", delay, got)
		}
	}
}

func FuzzOrphans(f *testing.F) {
	f.Add("_c_00000000000000000000000000000001-held", "_c_00000000000000000000000000000001-lock-0000000001")
	f.Fuzz(func(t *testing.T, x, y string) {
		for _, name := range Orphans([]string{x, y}) {
			if id, _ := IDOf(name); name != id.DelayMarker() {
				t.Errorf("%q is no marker", name)
			}
		}
	})
}
