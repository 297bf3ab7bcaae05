package wire

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A view lies in the frame, a string does not.
func TestViewsLieInTheFrame(t *testing.T) {
	frame := AppendString(AppendString(nil, "/path"), "/path")
	d := NewDecoder(frame)
	view, copied := d.StringView(), d.String()
	for i := range frame {
		frame[i] = 'x'
	}
	if view != "xxxxx" || copied != "/path" {
		t.Errorf("after the frame was written to: view %q, want %q; string %q, want %q", view, "xxxxx", copied, "/path")
	}
}

func TestViewsRefuseWhatStringsRefuse(t *testing.T) {
	for name, frame := range map[string][]byte{
		"null":     AppendInt32(nil, -1),
		"negative": AppendInt32(nil, -2),
		"short":    AppendString(nil, "/path")[:8],
		"nothing":  nil,
	} {
		d := NewDecoder(frame)
		if s := d.StringView(); s != "" || d.Err() == nil {
			t.Errorf("%s: %q, %v; want an error", name, s, d.Err())
		}
	}
}

// What the server decodes most often costs it no memory; a list of access rights costs the list.
func TestHotRecordsAllocateNothing(t *testing.T) {
	get := (&WatchRequest{Path: "/some/path/that/is/not/tiny"}).AppendTo(nil)
	acl := AppendACL(nil, zk.OpenACL())
	var d Decoder
	for _, c := range []struct {
		name string
		want float64
		do   func()
	}{
		{"a get", 0, func() { d.Reset(get); d.StringView(); d.Bool() }},
		{"an open ACL", 1, func() { d.Reset(acl); d.ACL() }},
	} {
		if got := testing.AllocsPerRun(100, c.do); got > c.want {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.want)
		}
	}
}
