package session

import (
	"encoding/hex"
	"testing"
	"time"
)

func TestPassword(t *testing.T) {
	for id, want := range map[int64]string{
		// Granted by Apache ZooKeeper 3.8.0.
		0x10000328fe70001: "de00c45b9c289dde168e191e79748cc8",
		// Seed 0 of java.util.Random, whose numbers are known far and wide: -1155484576,
		// -723955400, 1033096058, -1690734402.
		passwordSalt: "60b420bb3851d9d47acb933dbe70399b",
	} {
		if got := Password(id); hex.EncodeToString(got[:]) != want {
			t.Errorf("Password(%#x) = %x, want %s", id, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	const ms = 0xff_02_0304_0506 // the low forty bits count
	ids, table := NewIDs(1, ms), NewTable(1)
	if got, want := ids.Next(table), int64(0x01_0203040506_0000); got != want {
		t.Errorf("first id %#x, want %#x", got, want)
	}
	table.Add(ids.next, time.Second, 1, 0)
	taken := ids.next
	if got := ids.Next(table); got != taken+1 {
		t.Errorf("Next = %#x with %#x taken, want %#x", got, taken, taken+1)
	}
	last := NewIDs(254, -1)
	if got := last.Next(table); uint64(got)>>56 != 254 {
		t.Errorf("id %#x of server 254 must begin with fe", uint64(got))
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
