package server

import (
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// audited starts a server and returns its log's lines about changes, from the first word behind msg=audit on.
func audited(t *testing.T, edit ...func(*Options)) (*rig, func() []string) {
	var log lockedBuffer
	r := start(t, append(edit, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })...)
	session := regexp.MustCompile(`session=0x[0-9a-f]+`)
	return r, func() (lines []string) {
		synctest.Wait()
		for line := range strings.Lines(log.String()) {
			if _, text, ok := strings.Cut(line, "msg=audit "); ok {
				lines = append(lines, session.ReplaceAllString(strings.TrimSpace(text), "session=S"))
			}
		}
		return lines
	}
}

func TestTheLogTellsOfChangesOfRightsAndQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, lines := audited(t, func(o *Options) { o.Secure, o.SuperDigest = true, zk.DigestID("super:secret") })
		p := r.connect("c")
		p.authenticate("bob:pw")
		p.create("/app", zk.Persistent)
		setACL := func(path string, acl []zk.ACL) {
			p.call(wire.OpSetACL, &wire.SetACLRequest{Path: path, ACL: acl, Version: -1}, nil)
		}
		quota := func() {
			p.call(wire.OpMulti, &wire.MultiRequest{Ops: []wire.MultiOp{
				{Op: wire.OpCheck, Path: "/app", Version: -1},
				{Op: wire.OpCreate, Path: "/zookeeper/quota/app", ACL: zk.OpenACL()},
			}}, nil)
		}
		setACL("/", zk.OpenACL())
		setACL("/app", append(zk.DigestACL(zk.PermAll, "eve", "pw"), zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}))
		quota()
		p.authenticate("super:secret")
		quota()
		p.call(wire.OpSetData, &wire.SetDataRequest{Path: "/zookeeper/quota/app", Version: -1}, nil)
		p.call(wire.OpSetData, &wire.SetDataRequest{Path: "/app", Version: -1}, nil)
		q := r.dial("again")
		q.raw(append(append(connectFrame(p.session, p.password), authOf("bob:pw")...), authOf("super:secret")...))
		p.wantClosed()
		want := []string{
			`what=setACL path=/ result="not authorised" acl=world:anyone:cdrwa session=S remote=c:1 identities=ip:c,digest:bob unsaid=0`,
			`what=setACL path=/app result=ok acl=digest:eve:cdrwa,world:anyone:r session=S remote=c:1 identities=ip:c,digest:bob unsaid=0`,
			`what=multi path=/zookeeper/quota/app result="not authorised" session=S remote=c:1 identities=ip:c,digest:bob unsaid=0`,
			`what=multi path=/zookeeper/quota/app result=ok session=S remote=c:1 identities=ip:c,digest:bob,super,digest:super unsaid=0`,
			`what=set path=/zookeeper/quota/app result=ok session=S remote=c:1 identities=ip:c,digest:bob,super,digest:super unsaid=0`,
			`what="session goes over to another connection" session=S remote=again:2 from=c:1 identities=ip:again,digest:bob,super,digest:super unsaid=0`,
		}
		if got := lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the log says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Lines that clients cause do not fill the log, and are short.
func TestAuditLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, lines := audited(t)
		p := r.connect("c")
		long := "/" + strings.Repeat("x", 10000)
		for range auditBurst + 50 {
			p.call(wire.OpSetACL, &wire.SetACLRequest{Path: long, ACL: zk.OpenACL()}, nil)
		}
		got := lines()
		if len(got) != auditBurst {
			t.Errorf("%d lines at once, want %d", len(got), auditBurst)
		}
		if n := len(got[0]); n > 1000 {
			t.Errorf("a line of %d bytes", n)
		}
		time.Sleep(time.Second)
		p.call(wire.OpSetACL, &wire.SetACLRequest{Path: "/", ACL: zk.OpenACL()}, nil)
		got = lines()
		if !strings.HasSuffix(got[len(got)-1], "unsaid=50") {
			t.Errorf("the last line is %q, want it to say how many were left out", got[len(got)-1])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r, lines := audited(t, func(o *Options) { o.NoAudit = true })
		r.connect("c").call(wire.OpSetACL, &wire.SetACLRequest{Path: "/", ACL: zk.OpenACL()}, nil)
		if got := lines(); len(got) > 0 {
			t.Errorf("lines although there are to be none: %q", got)
		}
	})
}

// A secure server does not listen where other machines reach it without TLS.
func TestASecureServerRefusesAPlainListenerForOtherMachines(t *testing.T) {
	s, err := Open(Options{DataDir: t.TempDir(), Secure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(10*time.Second, func() { s.Close() })
	defer stop.Stop()
	if err := s.Serve(l); err == nil || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("Serve at %v: %v", l.Addr(), err)
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if isExposed(l) {
			t.Errorf("a listener at %s counts as one that other machines reach", address)
		}
		l.Close()
	}
}
