package interop

import (
	"regexp"
	"slices"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/interop/peer"
)

// Candidates of both makes stand in one line under names that both know, lead in the order of arrival, and
// are seen by each other as what they call themselves.
func TestElectionSharedWithCurator(t *testing.T) {
	t.Parallel()
	ours := regexp.MustCompile(`^_c_[0-9a-f]{32}-latch-[0-9]{10}$`)
	theirs := regexp.MustCompile(`^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-latch-[0-9]{10}$`)
	onBothServers(t, func(t *testing.T, addr string) {
		l := newTestLock(t, "/shared-election", addr, addr)
		kinds := []peer.Kind{peer.Lockkeeper, peer.Curator, peer.Lockkeeper, peer.Curator}
		peers := l.startAll(kinds...)
		lookers := l.startAll(peer.Lockkeeper, peer.Curator)
		for range 2 { // each make leads first
			l.look = connect(t, addr, watcherTimeout, nil) // it keeps no session alive
			peers, kinds = append(peers[1:], peers[0]), append(kinds[1:], kinds[0])
			peers[0].Take(l.path, peer.Leader)
			for _, p := range peers[1:] {
				l.joinAs(p, peer.Leader)
			}
			want := string(kinds[0]) + " of"
			for _, k := range kinds {
				want += " " + string(k)
			}
			for _, p := range lookers {
				p.Send("who %s", l.path)
				if got := p.Expect("leads"); got != want {
					t.Errorf("%q leads, want %q", got, want)
				}
			}
			names := l.children(l.path)
			for form, n := range map[*regexp.Regexp]int{ours: 2, theirs: 2} {
				if got := len(slices.DeleteFunc(slices.Clone(names), func(s string) bool { return !form.MatchString(s) })); got != n {
					t.Errorf("%d of %q match %v, want %d", got, names, form, n)
				}
			}
			for i, p := range peers[1:] {
				peers[i].Unlock()
				p.ExpectHeld() // the register knows if another was faster
			}
			peers[len(peers)-1].Unlock()
		}
		l.empty()
	})
}
