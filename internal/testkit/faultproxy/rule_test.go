package faultproxy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

func TestNothingIsChangedWithoutRules(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		c := dialThrough(t, p)
		c.send(create("/l/a-"), list("/l"))
		c.send(ping, get("/l/a", true))
		want(t, "client heard", c.log(), "connected, 1, 2, -2, -1, 4")
		want(t, "server saw", s.log(), "connect, create /l/a-, children /l, ping, get /l/a")
		c.nc.Close()
		synctest.Wait()
		want(t, "server saw", s.log(), "connect, create /l/a-, children /l, ping, get /l/a, end")
		if n := len(p.Conns()); n != 0 {
			t.Errorf("%d connections are open, want 0", n)
		}
	})
}

func TestCutBefore(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		r := p.CutBefore(Match{Ops: Lists()})
		c := dialThrough(t, p)
		c.send(create("/l/a-"), list("/l"), ping)
		want(t, "client heard", c.log(), "connected, 1, end") // the answer to the create was not lost
		want(t, "server saw", s.log(), "connect, create /l/a-, end")
		if r.Count() != 1 {
			t.Errorf("the rule acted %d times, want once", r.Count())
		}
		c = dialThrough(t, p)
		c.send(list("/l"))
		want(t, "client heard of the second listing", c.log(), "connected, 1")
	})
}

// The answers that CutBefore waits for may be held.
func TestCutBeforeWaitsForEarlierAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		p.Hold(Match{Ops: Creates()}, time.Second)
		p.CutBefore(Match{Ops: Lists()})
		c := dialThrough(t, p)
		c.send(create("/l/a-"), list("/l"))
		want(t, "client heard", c.log(), "connected")
		time.Sleep(time.Second)
		want(t, "client heard a second later", c.log(), "connected, 1, end")
	})
}

func TestCutAfter(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		r := p.CutAfter(Match{Ops: Creates(), Prefix: "/l/"})
		c := dialThrough(t, p)
		c.send(create("/other"), create("/l/a-"), list("/l"))
		want(t, "client heard", c.log(), "connected, 1, end")
		want(t, "server saw", s.log()[:37], "connect, create /other, create /l/a-,") // it has been applied
		select {
		case <-r.Acted():
		default:
			t.Error("Acted is not closed")
		}
		lost := p.Since(0).Answered(Creates()...)
		if len(lost) != 2 || lost[0].Lost || !lost[1].Lost {
			t.Errorf("record of the answers:\n%v", lost)
		}
	})
}

func TestCutBeforeAndAfterTheHandshake(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule func(*Proxy, Match) *Rule
		saw  string
	}{
		{"before", (*Proxy).CutBefore, "end"},
		{"after", (*Proxy).CutAfter, "connect, end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
				tt.rule(p, Match{Ops: []wire.Op{wire.OpCreateSession}})
				c := dialThrough(t, p)
				want(t, "client heard", c.log(), "end")
				want(t, "server saw", s.log(), tt.saw)
				want(t, "client heard next time", dialThrough(t, p).log(), "connected")
			})
		})
	}
}

func TestHoldDelaysWhatFollowsToo(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		p.Hold(Match{Path: "/slow"}, 500*time.Millisecond)
		c := dialThrough(t, p)
		c.send(get("/a", false), get("/slow", false), get("/b", false))
		want(t, "client heard", c.log(), "connected, 1")
		time.Sleep(499 * time.Millisecond)
		want(t, "client heard after 499 ms", c.log(), "connected, 1")
		time.Sleep(time.Millisecond)
		want(t, "client heard after 500 ms", c.log(), "connected, 1, 2, 3")
	})
}

// A rule is for the nth matching request, or some of them, in the order of their arrival.
func TestSkipAndTimes(t *testing.T) {
	for _, tt := range []struct {
		skip, times int
		want        []int // requests, from 1, that the rule acted on, out of 5
	}{
		{0, 0, []int{1}},
		{2, 0, []int{3}},
		{1, 2, []int{2, 3}},
		{3, Always, []int{4, 5}},
		{0, Always, []int{1, 2, 3, 4, 5}},
		{5, 1, nil},
	} {
		m := Match{Skip: tt.skip, Times: tt.times}
		var tl tally
		var got []int
		for n := 1; n <= 5; n++ {
			if tl.take(&m) {
				got = append(got, n)
			}
		}
		if len(got) != len(tt.want) || len(got) > 0 && (got[0] != tt.want[0] || got[len(got)-1] != tt.want[len(got)-1]) {
			t.Errorf("skip %d, times %d: acted on %v, want %v", tt.skip, tt.times, got, tt.want)
		}
	}
}

func TestMatch(t *testing.T) {
	req := Request{Conn: 2, Op: wire.OpCreate2, Path: "/locks/a/_c_1-lock-"}
	multi := Request{Conn: 1, Op: wire.OpMulti, Path: "/x", Steps: []Step{{wire.OpCheck, "/x"}, {wire.OpDelete, "/y"}}}
	for _, tt := range []struct {
		name string
		m    Match
		req  Request
		want bool
	}{
		{"everything", Match{}, req, true},
		{"family", Match{Ops: Creates()}, req, true},
		{"other family", Match{Ops: Lists()}, req, false},
		{"path", Match{Path: "/locks/a/_c_1-lock-"}, req, true},
		{"other path", Match{Path: "/locks/a"}, req, false},
		{"second step", Match{Path: "/y"}, multi, true},
		{"no step", Match{Path: "/z"}, multi, false},
		{"one step must meet all", Match{Prefix: "/x", Path: "/y"}, multi, false},
		{"prefix", Match{Prefix: "/locks/"}, req, true},
		{"other prefix", Match{Prefix: "/lock/"}, req, false},
	} {
		if got := tt.m.matches(tt.req); got != tt.want {
			t.Errorf("%s: matches = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A hook can change the world between an answer and the request that follows from it.
func TestHooksRunBeforeTheirFrameIsForwarded(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		c := dialThrough(t, p)
		c.log()
		p.Before(Match{Ops: Lists()}, func(r Request) {
			time.Sleep(time.Second) // until the server has seen what went before
			s.note("before " + r.Path)
		})
		p.After(Match{Ops: Lists()}, func(r Request, reply Reply) {
			s.note("after " + r.Path)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.heard = append(c.heard, "hook")
		})
		c.send(create("/l/a-"), list("/l"))
		time.Sleep(time.Minute)
		want(t, "client heard", c.log(), "connected, 1, hook, 2")
		want(t, "server saw", s.log(), "connect, create /l/a-, before /l, children /l, after /l")
	})
}

func TestRemovedRuleDoesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, p *Proxy, s *fakeServer) {
		p.CutBefore(Match{Times: Always}).Remove()
		c := dialThrough(t, p)
		c.send(list("/l"))
		want(t, "client heard", c.log(), "connected, 1")
	})
}
