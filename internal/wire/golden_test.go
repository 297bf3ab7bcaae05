package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A golden is a frame that went between a client and Apache ZooKeeper.
type golden struct {
	kind  string // "handshake", "request", "response" or "event"
	op    Op     // of the request that it is, answers or came before; of a handshake -1 there, -2 back
	frame []byte
}

func readGoldens(t testing.TB) (out []golden) {
	t.Helper()
	file, err := os.ReadFile("testdata/apache-3.8.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var g golden
		var text string
		if _, err := fmt.Sscan(line, &g.kind, (*int32)(&g.op), &text); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if g.frame, err = hex.DecodeString(text); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, g)
	}
	return out
}

// What Apache ZooKeeper understood and said is decoded to the last byte and encoded to the same bytes.
func TestGoldens(t *testing.T) {
	seen := map[string]int{}
	for _, g := range readGoldens(t) {
		seen[g.kind]++
		var parts []Record
		switch g.kind {
		case "handshake":
			parts = []Record{new(ConnectRequest)}
			if g.op == -2 {
				parts = []Record{new(ConnectResponse)}
			}
		case "request":
			parts = []Record{new(RequestHeader)}
			if r := requestOf(g.op); r != nil {
				parts = append(parts, r)
			}
		case "response":
			parts = []Record{new(ReplyHeader)}
			if r := responseOf(g.op); r != nil {
				parts = append(parts, r)
			}
		case "event":
			parts = []Record{new(ReplyHeader), new(WatcherEvent)}
		}
		d := NewDecoder(g.frame)
		var again []byte
		for _, r := range parts {
			r.DecodeFrom(d)
			again = r.AppendTo(again)
			if h, ok := r.(*ReplyHeader); ok && h.Err != zk.OK {
				break // nothing follows
			}
		}
		if d.Err() != nil || len(d.Rest()) != 0 || !bytes.Equal(again, g.frame) {
			t.Errorf("%s of %v: %v, %d bytes left\ngot  %x\nwant %x", g.kind, g.op, d.Err(), len(d.Rest()), again, g.frame)
		}
	}
	if seen["handshake"] != 2 || seen["request"] < 25 || seen["response"] != seen["request"] || seen["event"] == 0 {
		t.Errorf("seen %v", seen)
	}
}

// Of a failed multi, every result is an error; only one of them is the reason.
func TestGoldenFailedMulti(t *testing.T) {
	var got []zk.Code
	for _, g := range readGoldens(t) {
		if g.kind != "response" || g.op != OpMulti {
			continue
		}
		var r MultiResponse
		if err := Unmarshal(g.frame[16:], &r); err != nil {
			t.Fatal(err)
		}
		if r.Results[0].Op == OpError {
			for _, m := range r.Results {
				got = append(got, m.Err)
			}
		}
	}
	if want := fmt.Sprint([]zk.Code{zk.OK, zk.ErrNoNode, zk.ErrRuntimeInconsistency}); fmt.Sprint(got) != want {
		t.Errorf("codes %v, want %v", got, want)
	}
}
