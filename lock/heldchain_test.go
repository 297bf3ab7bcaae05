package lock

import (
	"slices"
	"strconv"
	"testing"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// The holds that a contender works under are named by their ids, once each and not without limit.
func TestWaitingUnderHoldsOfOthers(t *testing.T) {
	const digits = "0123456789abcdef0123456789abcdef"
	o := Options{underNodes: []string{"/a/_c_" + digits + "-lock-0000000007", "", "b", "/a/_c_" + digits + "-lock-0000000008", "/kazoo/x__lock__0000000001"}}
	if says := o.claimRecord(t.Context(), false); says.Yields || !slices.Equal(says.Under, []string{"/a/_c_" + digits, "/kazoo/x__lock__0000000001"}) {
		t.Errorf("a waiter says %+v", says)
	}
	for i := range 2 * queue.UnderMax {
		o.underNodes = append(o.underNodes, "/more/"+strconv.Itoa(i))
	}
	if says := o.claimRecord(t.Context(), false); len(says.Under) != queue.UnderMax {
		t.Errorf("%d holds named, want %d", len(says.Under), queue.UnderMax)
	}
}
