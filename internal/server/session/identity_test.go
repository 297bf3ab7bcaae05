package session

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"
)

func TestApachePassword(t *testing.T) {
	for id, want := range map[int64]string{
		// Granted by Apache ZooKeeper 3.8.0.
		0x10000328fe70001: "de00c45b9c289dde168e191e79748cc8",
		// Seed 0 of java.util.Random, whose numbers are known far and wide: -1155484576,
		// -723955400, 1033096058, -1690734402.
		passwordSalt: "60b420bb3851d9d47acb933dbe70399b",
	} {
		if got := ApachePassword(id); hex.EncodeToString(got[:]) != want {
			t.Errorf("ApachePassword(%#x) = %x, want %s", id, got, want)
		}
	}
}

func TestIDsOfApacheZooKeeper(t *testing.T) {
	const ms = 0xff_02_0304_0506 // the low forty bits count
	ids, table := NewIssuer(nil, true, ApacheFirst(ms)), NewTable(1)
	if got, want := ids.Next(table), int64(0x01_0203040506_0000); got != want {
		t.Errorf("first id %#x, want %#x", got, want)
	}
	taken := int64(0x01_0203040506_0001)
	table.Add(taken, time.Second, 1, 0)
	if got := ids.Next(table); got != taken+1 {
		t.Errorf("Next = %#x with %#x taken, want %#x", got, taken, taken+1)
	}
}

func TestIDsDifferAndDoNotCount(t *testing.T) {
	ids, table := NewIssuer(secret(1), false, 1<<64-1), NewTable(1)
	seen := make(map[int64]bool)
	near := 0
	last := ids.Next(table)
	for range 10000 {
		id := ids.Next(table)
		if seen[id] || uint64(id)>>56 != keyedServer {
			t.Fatalf("id %#x was made before or does not begin with %x", id, keyedServer)
		}
		if d := id - last; -1<<20 < d && d < 1<<20 {
			near++
		}
		seen[id], last = true, id
	}
	if near > 0 {
		t.Errorf("%d of 10000 ids are near the one before", near)
	}
	again := NewIssuer(secret(1), false, 1<<64-1)
	first := again.Next(table)
	table.Add(first, time.Second, 1, 0)
	if next := NewIssuer(secret(1), false, 1<<64-1); next.Next(table) == first {
		t.Errorf("Next = %#x, which is taken", first)
	}
}

func secret(b byte) []byte { return bytes.Repeat([]byte{b}, SecretBytes) }

func TestPasswords(t *testing.T) {
	table := NewTable(1)
	issuer := NewIssuer(secret(1), false, 7)
	id := issuer.Next(table)
	const foreign = 0x10000328fe70001
	own, apache := issuer.Password(id), ApachePassword(id)
	apacheForeign := ApachePassword(foreign)
	for _, c := range []struct {
		name     string
		issuer   *Issuer
		id       int64
		password []byte
		want     bool
	}{
		{"its own", issuer, id, own[:], true},
		{"after a restart", NewIssuer(secret(1), false, 9), id, own[:], true},
		{"with another secret", NewIssuer(secret(2), false, 7), id, own[:], false},
		{"of another session", issuer, id ^ 1, own[:], false},
		{"short", issuer, id, own[:15], false},
		{"none", issuer, id, nil, false},
		{"computed as Apache ZooKeeper does", issuer, id, apache[:], false},
		{"of a session that Apache ZooKeeper made", issuer, foreign, apacheForeign[:], true},
		{"before the move to Apache ZooKeeper", NewIssuer(secret(1), true, 9), id, own[:], true},
		{"in the last run before the move", NewIssuer(secret(1), true, 9), id, apache[:], true},
		{"in the last run, without the secret", NewIssuer(nil, true, 9), id, own[:], false},
		{"in the last run, wrong", NewIssuer(secret(1), true, 9), id, apacheForeign[:], false},
	} {
		if got := c.issuer.Accepts(c.id, c.password); got != c.want {
			t.Errorf("%s: Accepts = %t, want %t", c.name, got, c.want)
		}
	}
	if got := NewIssuer(secret(1), true, 9).Password(id); got != apache {
		t.Errorf("in the last run the password is %x, want %x", got, apache)
	}
}

func TestF46_Negotiate(t *testing.T) {
	const lowest, highest = 4 * time.Second, 40 * time.Second
	for asked, want := range map[int32]time.Duration{
		-1: lowest, 0: lowest, 3999: lowest, 4000: lowest, 4001: 4001 * time.Millisecond,
		40000: highest, 40001: highest, 1<<31 - 1: highest, -1 << 31: lowest,
	} {
		if got := Negotiate(asked, lowest, highest); got != want {
			t.Errorf("Negotiate(%d) = %v, want %v", asked, got, want)
		}
	}
}
