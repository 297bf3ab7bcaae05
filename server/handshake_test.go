package server

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestF46_GrantedTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		for asked, want := range map[int32]time.Duration{
			-1: 4 * time.Second, 0: 4 * time.Second, 5000: 5 * time.Second, 60000: 40 * time.Second,
		} {
			p := r.dial("c")
			p.handshake(wire.ConnectRequest{Timeout: asked})
			if p.timeout != want {
				t.Errorf("asked for %d ms, granted %v, want %v", asked, p.timeout, want)
			}
			if len(p.password) != session.PasswordBytes {
				t.Errorf("password of %d bytes, want %d", len(p.password), session.PasswordBytes)
			}
			p.nc.Close()
		}
	})
}

func TestConnectAnswerHasReadOnlyOnlyIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		for _, c := range []struct {
			has  bool
			want int
		}{{false, 36}, {true, 37}} {
			p := r.dial("c")
			wire.WriteRecord(p.nc, &wire.ConnectRequest{Timeout: 5000, HasReadOnly: c.has})
			if got := len(p.frame()); got != c.want {
				t.Errorf("HasReadOnly %t: answer of %d bytes, want %d", c.has, got, c.want)
			}
		}
	})
}

func TestResumeKeepsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a := r.connect("a")
		a.create("/e", zk.Ephemeral)
		b := r.resume(a)
		if b.session != a.session || !bytes.Equal(b.password, a.password) {
			t.Fatalf("resumed as %x, want %x", b.session, a.session)
		}
		a.wantClosed()
		if !b.exists("/e") {
			t.Error("the ephemeral is gone after the session moved to another connection")
		}
	})
}

// gone is the answer to a client whose session does not exist, or belongs to another.
const gone = "00000000" + "00000000" + "0000000000000000" + "00000010" + "00000000000000000000000000000000" + "00"

func TestRefusedResumeTouchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		owner := r.connect("owner")
		wrong := slices.Clone(owner.password)
		wrong[15]++
		unknown, computed := session.ApachePassword(77), session.ApachePassword(owner.session)
		for name, q := range map[string]wire.ConnectRequest{
			"wrong password": {SessionID: owner.session, Password: wrong},
			"no password":    {SessionID: owner.session},
			"short password": {SessionID: owner.session, Password: owner.password[:15]},
			"unknown":        {SessionID: 77, Password: unknown[:]},
			"computed":       {SessionID: owner.session, Password: computed[:]},
		} {
			q.HasReadOnly = true
			p := r.dial("intruder")
			wire.WriteRecord(p.nc, &q)
			if got := hex.EncodeToString(p.frame()); got != gone {
				t.Errorf("%s: answer %s, want %s", name, got, gone)
			}
			p.wantClosed()
		}
		owner.ping() // a client that knows only the id has not taken its place
	})
}

func TestF44_ClientAheadOfTheServerIsSentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a := r.connect("a")
		a.create("/n", zk.Persistent)
		p := r.dial("b")
		wire.WriteRecord(p.nc, &wire.ConnectRequest{Timeout: 5000, LastZxid: a.lastZxid + 1})
		p.wantClosed()
		p = r.dial("b")
		p.handshake(wire.ConnectRequest{Timeout: 5000, LastZxid: a.lastZxid})
		if p.session == 0 {
			t.Error("a client that has seen exactly what the server has was refused")
		}
	})
}

func TestMalformedGreetings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		whole := (&wire.ConnectRequest{Timeout: 5000, Password: make([]byte, 16)}).AppendTo(nil)
		for n := range whole {
			p := r.dial("c")
			b, at := wire.BeginFrame(nil)
			p.raw(wire.EndFrame(append(b, whole[:n]...), at))
			p.wantClosed()
		}
		for _, head := range []string{"\xff\xff\xff\xff", "\x7f\xff\xff\xff", "\x00\x10\x00\x00", "\x00\x00\x00\x00", "GET / HTTP/1.1\r\n\r\n"} {
			p := r.dial("c")
			p.raw([]byte(head))
			p.wantClosed()
		}
		// A connection that sends nothing, or half of a frame, is closed after a while.
		p := r.dial("c")
		p.raw([]byte{0, 0})
		begin := time.Now()
		p.wantClosed()
		if d := time.Since(begin); d > r.opts.HandshakeTimeout+10*time.Second+lingerTimeout {
			t.Errorf("a silent connection was kept for %v", d)
		}
		time.Sleep(2 * lingerTimeout)
		if n := r.Stats().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

func TestRequestsBehindTheGreetingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.dial("c")
		b, at := wire.BeginFrame(nil)
		b = wire.EndFrame((&wire.ConnectRequest{Timeout: 5000}).AppendTo(b), at)
		b = append(b, frameOf(1, wire.OpCreate, createReq("/n", zk.Persistent))...)
		b = append(b, frameOf(2, wire.OpExists, &wire.WatchRequest{Path: "/n"})...)
		p.raw(b)
		p.frame()
		for xid := range int32(2) {
			if a := p.receive(); a.Xid != xid+1 || a.Err != zk.OK {
				t.Errorf("answer %+v, want success of request %d", a, xid+1)
			}
		}
	})
}

func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ConnectionsPerAddressMax, o.ConnectionsMax = 2, 3 })
		a1, a2 := r.connect("a"), r.connect("a")
		r.dial("a").wantClosed()
		b := r.connect("b")
		r.dial("c").wantClosed()
		a1.ping()
		b.ping()
		a2.nc.Close()
		synctest.Wait()
		r.connect("a").ping()
	})
}

func TestWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		ask := func(word string) string {
			p := r.dial("monitor")
			p.raw([]byte(word))
			p.nc.(interface{ CloseWrite() error }).CloseWrite()
			var b bytes.Buffer
			b.ReadFrom(p.in)
			return b.String()
		}
		want := "Zookeeper version: " + VersionText() + `
Latency min/avg/max: 0/0.0/0
Received: 1
Sent: 0
Connections: 1
Outstanding: 0
Zxid: 0x0
Mode: standalone
Node count: 5
`
		if got := ask("srvr"); got != want {
			t.Errorf("srvr answers %q, want %q", got, want)
		}
		if got := ask("ruok"); got != "ruok is not executed because it is not in the whitelist.\n" {
			t.Errorf("ruok off the list answers %q", got)
		}
		if got := ask("what"); got != "" {
			t.Errorf("an unknown word is answered with %q", got)
		}
		r.opts.Words = []string{"ruok", "isro"}
		r.reopen(r.fs)
		for word, want := range map[string]string{"ruok": "imok", "isro": "rw", "ruok\n": "imok"} {
			if got := ask(word); got != want {
				t.Errorf("%q is answered with %q, want %q", word, got, want)
			}
		}
	})
}

func TestWordsAboutConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.Words = []string{"*"} })
		c := r.connect("c")
		c.create("/e", zk.Ephemeral)
		c.exists("/e")
		r.net.Link("c", "").Cut() // so that only the monitor is connected
		time.Sleep(2 * lingerTimeout)
		d := r.resume(c)
		d.exists("/e")
		ask := func(word string) string {
			p := r.dial("monitor")
			p.raw([]byte(word))
			var b bytes.Buffer
			b.ReadFrom(p.in)
			return b.String()
		}
		id, est := sessionID(c.session), time.Now().UnixMilli()
		remote := d.nc.LocalAddr()
		want := fmt.Sprintf(" /%v[1](queued=0,recved=2,sent=2,sid=%s,lop=EXIS,est=%d,to=10000,lcxid=0x1,lzxid=0x2,lresp=2000,llat=0,minlat=0,avglat=0,maxlat=0)\n", remote, id, est)
		if got := ask("cons"); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\n\n") {
			t.Errorf("cons answers\n%s\nwant it to begin with\n%s", got, want)
		}
		at := r.started.Add(14 * time.Second).Format("Mon Jan 02 15:04:05 MST 2006")
		want = "SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at " + at + ":\n\t" + id + "\n" +
			"ephemeral nodes dump:\nSessions with Ephemerals (1):\n" + id + ":\n\t/e\n" +
			"Connections dump:\nConnections Sets "
		if got := ask("dump"); !strings.HasPrefix(got, want) || !strings.Contains(got, fmt.Sprintf("1 expire at %s:\n\tip: /%v sessionId: %s\n", at, remote, id)) {
			t.Errorf("dump answers\n%s\nwant it to begin with\n%s", got, want)
		}
		if got := ask("crst"); got != "Connection stats reset.\n" || !strings.Contains(ask("cons"), "recved=0") {
			t.Errorf("crst answers %q", got)
		}
	})
}
