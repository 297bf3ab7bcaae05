package queue

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/zk"
)

func TestContenderSide(t *testing.T) {
	for name, shared := range map[string]bool{
		"/l/_c_0123456789abcdef0123456789abcdef-lock-0000000001":    false,
		"/l/_c_0123456789abcdef0123456789abcdef-__WRIT__0000000001": false,
		"/l/_c_0123456789abcdef0123456789abcdef-__READ__0000000001": true,
		"/l/0123456789abcdef0123456789abcdef__rlock__-2147483648":   true,
		"/l/_c_0123456789abcdef0123456789abcdef-lease-0000000001":   false,
	} {
		if got := NewContender(name, nil, zk.Stat{}).Shared; got != shared {
			t.Errorf("%s: Shared is %v", name, got)
		}
	}
}

func TestWho(t *testing.T) {
	for _, c := range []struct {
		contender Contender
		want      string
	}{
		{Contender{}, ""},
		{Contender{Node: "/l/n", Session: 0x10}, "session 0x10"},
		{Contender{Node: "/l/n", Session: -1<<63 + 0x10}, "session 0x8000000000000010"}, // of a server whose number is 128
		{Contender{Node: "/l/n", Owner: Owner{Program: "p", PID: 3, Host: "h", Label: "l"}}, "p pid 3 on h (l)"},
		{Contender{Node: "/l/n", Owner: Owner{Label: "l"}}, "(l)"},
		{Contender{Node: "/l/n", Owner: Owner{Program: "p\n", Host: "\x1b[2J", Label: `größe "l"`}}, `p? on ?[2J (größe "l")`},
	} {
		if got := c.contender.Describe(); got != c.want {
			t.Errorf("Who of %+v = %q, want %q", c.contender, got, c.want)
		}
	}
}

// The claims that are there decide; the number of permits that a directory keeps counts only where there are none.
func TestKindOf(t *testing.T) {
	name := func(word string) string { return newID().Prefix(word) + "0000000007" }
	for _, tt := range []struct {
		names   []string
		permits int
		want    Kind
	}{
		{nil, 0, KindNone},
		{[]string{"stranger"}, 0, KindNone},
		{nil, 2, KindSemaphore},
		{[]string{name(PermitWord)}, 2, KindSemaphore},
		{[]string{name(PermitWord)}, 0, KindSemaphore},
		{[]string{name(LockWord)}, 0, KindMutex},
		{[]string{name(LockWord)}, 2, KindMutex},
		{[]string{name(ReadWord)}, 2, KindReadWrite},
		{[]string{name(writeWord), name(LockWord)}, 0, KindReadWrite},
		{[]string{name(latchWord)}, 0, KindElection},
		{[]string{LeasesName}, 0, KindCuratorSemaphore},
		{[]string{LeasesName, GateName}, 2, KindCuratorSemaphore},
		{[]string{LeasesName, GateName, name(LockWord)}, 0, KindMutex},
	} {
		if got := KindOf(tt.names, tt.permits); got != tt.want {
			t.Errorf("kindOf(%q, %d) = %q, want %q", tt.names, tt.permits, got, tt.want)
		}
	}
}
