package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What a client has missed is told to those alone that may read the znode: the events would tell others when it was changed.
func TestMissedEventsOfZnodesThatMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p, other := r.connect("c"), r.connect("other")
		p.authenticate("bob:pw")
		if code := p.call(wire.OpCreate, &wire.CreateRequest{Path: "/secret", ACL: zk.CreatorACL()}, nil); code != zk.OK {
			t.Fatal(code)
		}
		for _, q := range []*wire.SetWatchesRequest{{Data: []string{"/secret"}}, {Exist: []string{"/secret"}}, {Child: []string{"/secret"}}} {
			other.call(wire.OpSetWatches, q, nil) // answerTo fails if an event comes first
		}
		other.wantSilence(time.Second)
		p.send(wire.OpSetWatches, &wire.SetWatchesRequest{Data: []string{"/secret"}})
		p.wantEvent(zk.NodeDataChanged, "/secret")
	})
}
