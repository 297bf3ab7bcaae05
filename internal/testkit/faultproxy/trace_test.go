package faultproxy

import (
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestRecordSaysWhatPassed(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		c := dialThrough(t, p)
		c.log()
		mark := p.Mark()
		c.send(create("/l/a-"), list("/l")) // one write
		c.log()
		time.Sleep(time.Second)
		c.send(ping)
		c.send(get("/l/b", true))
		c.log()

		log := p.Since(mark)
		want(t, "operations", log.Asked().But(wire.OpPing).Ops(), "create, children, get")
		if asked := log.Asked(wire.OpCreate2, wire.OpGetChildren); len(asked) != 2 || asked.Reads() != 1 {
			t.Errorf("create and listing: %d requests in %d reads, want 2 in 1:\n%v", len(asked), asked.Reads(), asked)
		}
		if n := log.Asked().Reads(); n != 3 {
			t.Errorf("all requests in %d reads, want 3", n)
		}
		if n := len(log.Of(2)); n != 0 {
			t.Errorf("%d entries of a connection that is not there", n)
		}
		created := log.Answered(Creates()...)
		if len(created) != 1 || created[0].Path != "/l/a-" || created[0].Zxid != 1 || created[0].Xid != 1 {
			t.Errorf("answer to the create: %v", created)
		}
		var events Log
		for _, e := range log {
			if e.Kind == Notified {
				events = append(events, e)
			}
		}
		if len(events) != 1 || events[0].Path != "/l/b" || events[0].EventType != zk.NodeDeleted {
			t.Errorf("events: %v", events)
		}
		if d := events[0].At.Sub(created[0].At); d != time.Second {
			t.Errorf("the event came %v after the create, want 1s", d)
		}
	})
}

// Answers to pings may overtake others, and belong to the pings nevertheless.
func TestAnswerThatOvertakes(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		rule := p.CutAfter(Match{Path: "/later"})
		c := dialThrough(t, p)
		c.send(get("/later", false), ping)
		want(t, "client heard", c.log(), "connected, -2, end")
		want(t, "answered", p.Since(0).Answered().Ops(), "createSession, ping, get")
		if rule.Count() != 1 {
			t.Errorf("the rule acted %d times, want once", rule.Count())
		}
	})
}

func TestDecodeRequest(t *testing.T) {
	multi := &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpCheck, Path: "/a", Version: -1}, {Op: wire.OpDelete, Path: "/b"}}}
	watches := &wire.SetWatchesRequest{Data: []string{"/d"}, Child: []string{"/c"}}
	for _, tt := range []struct {
		name  string
		frame []byte
		want  Request
	}{
		{"create", create("/x")(7)[4:], Request{Op: wire.OpCreate2, Xid: 7, Path: "/x"}},
		{"watch", get("/x", true)(1)[4:], Request{Op: wire.OpGetData, Xid: 1, Path: "/x", Watch: true}},
		{"ping", ping(0)[4:], Request{Op: wire.OpPing, Xid: wire.XidPing}},
		{"multi", request(wire.OpMulti, multi)(2)[4:], Request{Op: wire.OpMulti, Xid: 2, Path: "/a",
			Steps: []Step{{wire.OpCheck, "/a"}, {wire.OpDelete, "/b"}}}},
		{"setWatches", request(wire.OpSetWatches, watches)(wire.XidSetWatches)[4:], Request{Op: wire.OpSetWatches,
			Xid: wire.XidSetWatches, Path: "/d", Steps: []Step{{wire.OpSetWatches, "/d"}, {wire.OpSetWatches, "/c"}}}},
		{"cut short", create("/x")(7)[4:12], Request{Op: wire.OpCreate2, Xid: 7}},
		{"empty", nil, Request{}},
	} {
		got := decodeRequest(tt.frame)
		if got.String() != tt.want.String() || got.Watch != tt.want.Watch || len(got.Steps) != len(tt.want.Steps) {
			t.Errorf("%s: %v %v, want %v %v", tt.name, got, got.Steps, tt.want, tt.want.Steps)
		}
		for i := range tt.want.Steps {
			if got.Steps[i] != tt.want.Steps[i] {
				t.Errorf("%s: step %d is %v, want %v", tt.name, i, got.Steps[i], tt.want.Steps[i])
			}
		}
	}
}
