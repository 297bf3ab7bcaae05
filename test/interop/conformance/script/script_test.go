package script

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// The requests of scripts are those that a client would send.
func TestRequestsAreEncodedAsClientsEncodeThem(t *testing.T) {
	create := wire.CreateRequest{Path: "/x y", Data: []byte("aaa"), ACL: zk.OpenACL(), Mode: 3}
	for _, tt := range []struct {
		line string
		want wire.Record
	}{
		{`a create "/x y" a*3 open 3`, &create},
		{`a createTTL "/x y" aaa 31:world:anyone 3 77`, &wire.CreateTTLRequest{CreateRequest: create, TTL: 77}},
		{`a create /x null rw:digest:bob:hash,c:ip:::1 0`, &wire.CreateRequest{Path: "/x",
			ACL: []zk.ACL{{Perms: 3, Scheme: "digest", ID: "bob:hash"}, {Perms: 4, Scheme: "ip", ID: "::1"}}}},
		{`a delete /x -1`, &wire.VersionRequest{Path: "/x", Version: -1}},
		{`a getData /x watch`, &wire.WatchRequest{Path: "/x", Watch: true}},
		{`a exists /x`, &wire.WatchRequest{Path: "/x"}},
		{`a setData /x "" 5`, &wire.SetDataRequest{Path: "/x", Data: []byte{}, Version: 5}},
		{`a setACL /x open 5`, &wire.SetACLRequest{Path: "/x", ACL: zk.OpenACL(), Version: 5}},
		{`a auth digest bob:pw`, &wire.AuthRequest{Scheme: "digest", Auth: []byte("bob:pw")}},
		{`a setWatches +5 /x,/y - /z`, &wire.SetWatchesRequest{RelativeZxid: 105, Data: []string{"/x", "/y"}, Child: []string{"/z"}}},
		{`a setWatches2 5 - - - /x -`, &wire.SetWatchesRequest{RelativeZxid: 5, Persistent: []string{"/x"}}},
		{`a multi delete /x 1 ; check /y 2`, &wire.MultiRequest{Ops: []wire.MultiOp{
			{Op: wire.OpDelete, Path: "/x", Version: 1}, {Op: wire.OpCheck, Path: "/y", Version: 2}}}},
		{`a multi`, &wire.MultiRequest{}},
		{`a addWatch / 1`, &wire.AddWatchRequest{Path: "/", Mode: 1}},
		{`a removeWatches / 3`, &wire.WatchKindRequest{Path: "/", Kind: 3}},
	} {
		step, err := ParseStep(tt.line)
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		frame, xid, err := encode(&step.Calls[0], 7, 100)
		op, _ := opOf(&step.Calls[0])
		h := wire.RequestHeader{Xid: xid, Op: op}
		b, start := wire.BeginFrame(nil)
		want := wire.EndFrame(tt.want.AppendTo(h.AppendTo(b)), start)
		if err != nil || !bytes.Equal(frame, want) {
			t.Errorf("%s:\ngot  %x, %v\nwant %x", tt.line, frame, err, want)
		}
	}
}

func TestModifiers(t *testing.T) {
	for line, want := range map[string]int{
		"a ping":                        8,
		"a trunc=1 exists /":            8 + 4 + 1 + 1 - 1,
		"a pad=5 exists /":              8 + 4 + 1 + 1 + 5,
		"a size=1000 setData /x data 0": 1000,
	} {
		step, err := ParseStep(line)
		if err != nil {
			t.Fatal(err)
		}
		frame, _, err := encode(&step.Calls[0], 1, 0)
		if got := len(frame) - 4; err != nil || got != want {
			t.Errorf("%s: %d bytes, %v; want %d", line, got, err, want)
		}
	}
}

func TestStepsAreTakenApart(t *testing.T) {
	step, err := ParseStep(`a xid=5 getData "/\x00 |" watch | unordered getACL /x ~ why # comment`)
	if err != nil || step.Conn != "a" || len(step.Calls) != 2 || step.Differs != "why" ||
		step.Calls[0].Verb != "getData" || step.Calls[0].Args[0] != "/\x00 |" || step.Calls[0].Mods["xid"] != "5" || step.Calls[1].Verb != "getACL" {
		t.Errorf("got %+v, %v", step, err)
	}
}

func TestMistakesAreNoticed(t *testing.T) {
	for _, text := range []string{
		"a ping", "== x\na", "== x\na ping |", "== x\na | ping", "== x\na ping ~", "== x\na ping ~ a b", `== x` + "\n" + `a getData "/x`, `== x` + "\n" + `a getData "null"`,
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q is taken for a script", text)
		}
	}
	for _, line := range []string{
		"a nonsense", "a getData", "a delete /x", "a delete /x y", "a exists / watch more", "a create /x d rwx:world:anyone 0", "a create /x d open:x 0", "a what=5 exists /",
	} {
		step, err := ParseStep(line)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := encode(&step.Calls[0], 1, 0); err == nil {
			t.Errorf("%q is taken for a request", line)
		}
	}
}

// Two answers that differ must not read the same.
func TestAnswersAreToldApart(t *testing.T) {
	r := &reading{base: 100, sessions: map[int64]string{0: "nobody", 9: "a"}}
	call := Call{Verb: "getData"}
	stat := zk.Stat{Czxid: 101, EphemeralOwner: 9}
	seen := map[string]bool{}
	for _, body := range [][]byte{
		(&wire.DataResponse{Data: nil, Stat: stat}).AppendTo(nil),
		(&wire.DataResponse{Data: []byte{}, Stat: stat}).AppendTo(nil),
		(&wire.DataResponse{Data: []byte("null"), Stat: stat}).AppendTo(nil),
		(&wire.DataResponse{Data: bytes.Repeat([]byte("x"), 100), Stat: stat}).AppendTo(nil),
		(&wire.DataResponse{Data: bytes.Repeat([]byte("y"), 100), Stat: stat}).AppendTo(nil),
		(&wire.DataResponse{Stat: zk.Stat{Czxid: 102, EphemeralOwner: 9}}).AppendTo(nil),
		(&wire.DataResponse{Stat: zk.Stat{Czxid: 101, EphemeralOwner: 8}}).AppendTo(nil),
		(&wire.DataResponse{Stat: zk.Stat{Czxid: 101, EphemeralOwner: 9, Pzxid: 1}}).AppendTo(nil),
		append((&wire.DataResponse{Stat: stat}).AppendTo(nil), 0),
		(&wire.DataResponse{Stat: stat}).AppendTo(nil)[:70],
		nil,
	} {
		for _, h := range []wire.ReplyHeader{{Xid: 1, Zxid: 100}, {Xid: 2, Zxid: 100}, {Xid: 1, Zxid: 101}, {Xid: 1, Zxid: -1}, {Xid: 1, Zxid: 100, Err: -5}} {
			text := r.answer(&call, h, wire.NewDecoder(body))
			if seen[text] {
				t.Errorf("two answers read %s", text)
			}
			seen[text] = true
		}
	}
	if text := r.answer(&call, wire.ReplyHeader{Xid: 1, Zxid: 103}, wire.NewDecoder((&wire.DataResponse{Stat: stat}).AppendTo(nil))); !strings.Contains(text, "at +3 null {c+1 ") || !strings.Contains(text, "owner a ") {
		t.Errorf("got %s", text)
	}
}
