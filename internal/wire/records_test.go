package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/zk"
)

var (
	someStat = zk.Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7,
		EphemeralOwner: 8, DataLength: 9, NumChildren: 10, Pzxid: 11}
	someACL = []zk.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}, {Perms: zk.PermRead, Scheme: "digest", ID: "a:b"}}
)

// records are one or more of every kind, with what is likely to be mixed up: null and empty, first and
// last field.
var records = []Record{
	&ConnectRequest{ProtocolVersion: 1, LastZxid: 2, Timeout: 3, SessionID: -4, Password: []byte("0123456789abcdef"), ReadOnly: true, HasReadOnly: true},
	&ConnectRequest{},
	&ConnectRequest{Password: []byte{}, HasReadOnly: true},
	&ConnectResponse{ProtocolVersion: 1, Timeout: 2, SessionID: 3, Password: []byte("0123456789abcdef"), HasReadOnly: true},
	&ConnectResponse{Password: []byte("x")},
	&RequestHeader{Xid: 7, Op: OpCreate2},
	&ReplyHeader{Xid: -1, Zxid: -1, Err: zk.ErrNoNode},
	&WatcherEvent{Type: zk.NodeDeleted, State: StateConnected, Path: "/a"},
	&CreateRequest{Path: "/a", Data: []byte("d"), ACL: someACL, Mode: zk.EphemeralSequential},
	&CreateRequest{Path: "/a", Data: []byte{}, ACL: []zk.ACL{}},
	&CreateRequest{},
	&CreateTTLRequest{CreateRequest: CreateRequest{Path: "/a", ACL: someACL, Mode: zk.PersistentTTL}, TTL: 1 << 40},
	&VersionRequest{Path: "/a", Version: -1},
	&WatchRequest{Path: "/a", Watch: true},
	&PathRecord{Path: "/ünï"},
	&PrefixRequest{Prefix: "/a"},
	&SetDataRequest{Path: "/a", Data: []byte("d"), Version: 3},
	&SetDataRequest{Path: "/a"},
	&SetACLRequest{Path: "/a", ACL: someACL, Version: 3},
	&WatchKindRequest{Path: "/a", Kind: zk.WatchPersistentRecursive},
	&AddWatchRequest{Path: "/a", Mode: AddWatchPersistentRecursive},
	&AuthRequest{Type: 1, Scheme: "digest", Auth: []byte("a:b")},
	&SetWatchesRequest{RelativeZxid: 5, Data: []string{"/a", "/b"}, Exist: []string{}, Child: []string{"/c"}},
	&SetWatchesRequest{RelativeZxid: 5, Data: []string{}, Exist: []string{"/x"}, Child: []string{}, Persistent: []string{}, Recursive: []string{"/r"}},
	&ReconfigRequest{Joining: "a", Leaving: "b", NewMembers: "c", ConfigID: -1},
	&TokenRecord{Token: []byte("t")},
	&TokenRecord{},
	&CreateResponse{Path: "/a0000000001", Stat: someStat},
	&StatResponse{Stat: someStat},
	&DataResponse{Data: []byte("d"), Stat: someStat},
	&DataResponse{Data: []byte{}},
	&DataResponse{},
	&ACLResponse{ACL: someACL, Stat: someStat},
	&ChildrenResponse{Children: []string{"a", "", "b"}, Stat: someStat},
	&ChildrenResponse{Children: []string{}},
	&StringsResponse{Strings: []string{"a"}},
	&Int32Response{Value: -7},
	&WhoAmIResponse{Identities: []Identity{{"ip", "127.0.0.1"}, {"digest", "a"}}},
	&WhoAmIResponse{},
	&MultiRequest{Ops: []MultiOp{
		{Op: OpCreate, Path: "/a", Data: []byte("d"), ACL: someACL, Mode: zk.Ephemeral},
		{Op: OpCreate2, Path: "/b", ACL: someACL},
		{Op: OpCreateContainer, Path: "/c", ACL: someACL, Mode: zk.Container},
		{Op: OpCreateTTL, Path: "/d", ACL: someACL, Mode: zk.PersistentTTL, TTL: 9},
		{Op: OpDelete, Path: "/e", Version: -1},
		{Op: OpSetData, Path: "/f", Data: []byte{}, Version: 4},
		{Op: OpCheck, Path: "/g", Version: 5},
		{Op: OpGetData, Path: "/h"},
		{Op: OpGetChildren, Path: "/i"},
	}},
	&MultiRequest{},
	&MultiResponse{Results: []MultiResult{
		{Op: OpCreate, Path: "/a"},
		{Op: OpCreate2, Path: "/b", Stat: someStat},
		{Op: OpDelete}, {Op: OpCheck},
		{Op: OpSetData, Stat: someStat},
		{Op: OpGetData, Data: []byte("d"), Stat: someStat},
		{Op: OpGetChildren, Children: []string{"a"}},
		{Op: OpError, Err: zk.ErrRuntimeInconsistency},
	}},
	&MultiResponse{},
}

func fresh(r Record) Record { return reflect.New(reflect.TypeOf(r).Elem()).Interface().(Record) }

func TestEveryRecordBothWays(t *testing.T) {
	for _, r := range records {
		b := r.AppendTo([]byte("before"))
		if !bytes.HasPrefix(b, []byte("before")) {
			t.Errorf("%T: AppendTo does not append", r)
		}
		b = b[len("before"):]
		got := fresh(r)
		d := NewDecoder(b)
		got.DecodeFrom(d)
		if d.Err() != nil || len(d.Rest()) != 0 || !reflect.DeepEqual(got, r) {
			t.Errorf("%T: decoded %+v, %d bytes left, %v, want %+v", r, got, len(d.Rest()), d.Err(), r)
		}
	}
}

// optionalTail are the records whose last fields may be left out.
func optionalTail(r Record, left int) bool {
	switch r := r.(type) {
	case *ConnectRequest, *ConnectResponse:
		return left == 1
	case *SetWatchesRequest:
		return r.Op() == OpSetWatches2 && left > 0
	}
	return false
}

// A record that is cut off anywhere is an error, and never a panic.
func TestEveryRecordTruncated(t *testing.T) {
	for _, r := range records {
		b := r.AppendTo(nil)
		for n := range b {
			err := Unmarshal(b[:n], fresh(r))
			if err == nil && !optionalTail(r, len(b)-n) {
				t.Errorf("%T cut to %d of %d bytes: no error", r, n, len(b))
			}
			if err != nil && !errors.Is(err, ErrTruncated) && !strings.Contains(err.Error(), "vector of") {
				t.Errorf("%T cut to %d of %d bytes: %v", r, n, len(b), err)
			}
		}
	}
}

func TestSetWatchesForm(t *testing.T) {
	for _, tt := range []struct {
		req  SetWatchesRequest
		want Op
	}{
		{SetWatchesRequest{Data: []string{"/a"}}, OpSetWatches},
		{SetWatchesRequest{Persistent: []string{"/a"}}, OpSetWatches2},
		{SetWatchesRequest{Recursive: []string{"/a"}}, OpSetWatches2},
	} {
		if got := tt.req.Op(); got != tt.want {
			t.Errorf("%+v goes as %v, want %v", tt.req, got, tt.want)
		}
	}
}

func TestDecoder(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		read func(d *Decoder) any
		want any
		err  string
	}{
		{"null buffer", "\xff\xff\xff\xff", func(d *Decoder) any { return d.Buffer() }, []byte(nil), ""},
		{"empty buffer", "\x00\x00\x00\x00", func(d *Decoder) any { return d.Buffer() }, []byte{}, ""},
		{"buffer of -2", "\xff\xff\xff\xfe", func(d *Decoder) any { return d.Buffer() }, []byte(nil), "negative length -2"},
		{"buffer of 2 GiB", "\x7f\xff\xff\xff", func(d *Decoder) any { return d.Buffer() }, []byte(nil), "ends early"},
		{"null string", "\xff\xff\xff\xff", func(d *Decoder) any { return d.String() }, "", "null string"},
		{"string of -2", "\xff\xff\xff\xfe", func(d *Decoder) any { return d.String() }, "", "negative length -2"},
		{"null strings", "\xff\xff\xff\xff", func(d *Decoder) any { return d.Strings() }, []string(nil), ""},
		{"-2 strings", "\xff\xff\xff\xfe", func(d *Decoder) any { return d.Strings() }, []string{}, ""},
		{"too many strings", "\x00\x00\x00\x02\x00\x00\x00\x00", func(d *Decoder) any { return d.Strings() }, []string(nil), "vector of 2 elements in 4 bytes"},
		{"2^31-1 strings", "\x7f\xff\xff\xff", func(d *Decoder) any { return d.Strings() }, []string(nil), "vector of 2147483647 elements"},
		{"null ACL", "\xff\xff\xff\xff", func(d *Decoder) any { return d.ACL() }, []zk.ACL(nil), ""},
		{"auth without an id in an ACL", "\x00\x00\x00\x01\x00\x00\x00\x1f\x00\x00\x00\x04auth\xff\xff\xff\xff", func(d *Decoder) any { return d.ACL() }, []zk.ACL{{Perms: 31, Scheme: "auth"}}, ""},
		{"ip without an id in an ACL", "\x00\x00\x00\x01\x00\x00\x00\x1f\x00\x00\x00\x02ip\xff\xff\xff\xff", func(d *Decoder) any { return d.ACL() }, []zk.ACL(nil), "null string"},
		{"null for the scheme in an ACL", "\x00\x00\x00\x01\x00\x00\x00\x1f\xff\xff\xff\xff\xff\xff\xff\xff", func(d *Decoder) any { return d.ACL() }, []zk.ACL{{Perms: 31}}, ""},
		{"bool 0", "\x00", func(d *Decoder) any { return d.Bool() }, false, ""},
		{"bool 2", "\x02", func(d *Decoder) any { return d.Bool() }, true, ""},
		{"int32", "\xff\xff\xff\xf8", func(d *Decoder) any { return d.Int32() }, int32(-8), ""},
		{"int64", "\x00\x00\x00\x01\x00\x00\x00\x00", func(d *Decoder) any { return d.Int64() }, int64(1) << 32, ""},
	} {
		d := NewDecoder([]byte(tt.in))
		got := tt.read(d)
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %#v, want %#v", tt.name, got, tt.want)
		}
		if (d.Err() == nil) != (tt.err == "") || d.Err() != nil && !strings.Contains(d.Err().Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, d.Err(), tt.err)
		}
		if d.Err() != nil && (d.Int64() != 0 || d.Rest() != nil) {
			t.Errorf("%s: reads on after an error", tt.name)
		}
	}
}

func TestReadFrame(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 3*bodyStep+1)
	frame := func(body []byte) []byte {
		b, start := BeginFrame(nil)
		return EndFrame(append(b, body...), start)
	}
	for _, tt := range []struct {
		name string
		in   []byte
		max  int
		want []byte
		err  string
	}{
		{"empty", frame(nil), 10, []byte{}, ""},
		{"as large as allowed", frame([]byte("0123456789")), 10, []byte("0123456789"), ""},
		{"a byte more", frame([]byte("0123456789x")), 10, nil, "frame of 11 bytes, limit is 10"},
		{"negative", []byte("\xff\xff\xff\xff"), 10, nil, "frame of -1 bytes"},
		{"nothing", nil, 10, nil, "EOF"},
		{"half a length", []byte{0, 0}, 10, nil, "unexpected EOF"},
		{"half a body", frame([]byte("0123"))[:6], 10, nil, "unexpected EOF"},
		{"no body", frame([]byte("0123"))[:4], 10, nil, "unexpected EOF"},
		{"in several steps", frame(big), len(big), big, ""},
	} {
		for _, buf := range [][]byte{nil, make([]byte, 0, 7), make([]byte, 5, 1<<20)} {
			got, err := ReadFrame(bytes.NewReader(tt.in), buf, tt.max)
			if !bytes.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err && !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%s: %d bytes, %v, want %d, %q", tt.name, len(got), err, len(tt.want), tt.err)
			}
		}
	}
}

// A length alone claims no memory: the bytes must have come.
func TestLengthsClaimNoMemory(t *testing.T) {
	head := []byte{0x3f, 0xff, 0xff, 0xff}
	if n := testing.AllocsPerRun(1, func() {}); n != 0 {
		t.Fatal("cannot measure")
	}
	b := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ReadFrame(bytes.NewReader(head), nil, 1<<30)
		}
	})
	if got := b.AllocedBytesPerOp(); got > 2*bodyStep {
		t.Errorf("a length of 1 GiB claims %d bytes", got)
	}
}
