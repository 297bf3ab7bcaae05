package server

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// theft is what takes a session in one write: the connect request with a password, and a closeSession behind it.
func theft(id int64, password []byte) []byte {
	b, at := wire.BeginFrame(nil)
	b = wire.EndFrame((&wire.ConnectRequest{Timeout: 10000, SessionID: id, Password: password}).AppendTo(b), at)
	return append(b, frameOf(1, wire.OpCloseSession, nil)...)
}

// A client without any identity sees the id of the holder's session in the znode, computes the password as Apache
// ZooKeeper does, and closes the session.
func TestASessionCannotBeStolenWithAComputedPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		holder := r.connect("holder")
		holder.create("/lock", zk.Ephemeral)
		thief := r.connect("thief")
		var found wire.StatResponse
		if code := thief.call(wire.OpExists, &wire.WatchRequest{Path: "/lock"}, &found); code != zk.OK {
			t.Fatal(code)
		}
		id := found.Stat.EphemeralOwner
		computed := session.ApachePassword(id)
		p := r.dial("thief")
		p.raw(theft(id, computed[:]))
		io.Copy(io.Discard, p.in)
		holder.ping()
		if !thief.exists("/lock") {
			t.Error("the session was closed by a client that had computed its password")
		}
	})
}

func TestSessionsSurviveARestartWithTheSameSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a := r.connect("a")
		r.reopen(r.fs.CrashClone(nil))
		b := r.resume(a)
		if b.session != a.session || !bytes.Equal(b.password, a.password) {
			t.Errorf("resumed as %x with password %x, want %x with %x", b.session, b.password, a.session, a.password)
		}
	})
}

// The last run before Apache ZooKeeper takes over gives the passwords that it is going to ask for. Sessions of that run
// keep them, should the data directory stay here.
func TestTheLastRunBeforeApacheZooKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a := r.connect("a")
		r.opts.ApachePasswords = true
		r.reopen(r.fs)
		moved, fresh := r.resume(a), r.connect("b")
		if moved.session != a.session {
			t.Fatal("a session from before was not resumed")
		}
		for _, p := range []*peer{moved, fresh} {
			if want := session.ApachePassword(p.session); !bytes.Equal(p.password, want[:]) {
				t.Errorf("session %x has the password %x, want %x", p.session, p.password, want)
			}
		}
		if r.resume(moved).session != a.session {
			t.Error("the new password was not accepted")
		}
		r.opts.ApachePasswords = false
		r.reopen(r.fs)
		if r.resume(fresh).session != fresh.session {
			t.Error("a session with the password of Apache ZooKeeper was not resumed")
		}
	})
}

// Virtual time stands still: both starts are in the same millisecond.
func TestIDsDoNotComeAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a := r.connect("a")
		a.call(wire.OpCloseSession, nil, nil)
		r.reopen(r.fs)
		if b := r.connect("b"); b.session == a.session {
			t.Errorf("session %x comes again, with its password", b.session)
		}
		if r.resume(a).session != 0 {
			t.Error("a session that was closed was resumed")
		}
	})
}

func TestTheSecretIsForItsOwnerOnlyAndStays(t *testing.T) {
	opts := Options{DataDir: t.TempDir()}
	path := filepath.Join(opts.DataDir, secretName)
	var before []byte
	for range 2 {
		s, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 || info.Size() != session.SecretBytes {
			t.Errorf("%s has the mode %v and %d bytes, want 0600 and %d", path, info.Mode(), info.Size(), session.SecretBytes)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, now) {
			t.Error("the secret has changed")
		}
		before = now
	}
	if err := os.WriteFile(path, before[:31], 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(opts); err == nil || !strings.Contains(err.Error(), "has 31 bytes instead of 32") {
		t.Errorf("Open with a damaged secret: %v", err)
		if err == nil {
			s.Close()
		}
	}
}
