package queue

import "testing"

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
	} {
		if got := KindOf(tt.names, tt.permits); got != tt.want {
			t.Errorf("kindOf(%q, %d) = %q, want %q", tt.names, tt.permits, got, tt.want)
		}
	}
}
