package client_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// EachChild shows what Children lists; nothing of what is not there; and of a broken answer what is whole.
func TestEachChild(t *testing.T) {
	names := []string{"b", "", "a-0000000001", "ü"}
	whole := wire.ChildrenResponse{Children: names, Stat: zk.Stat{NumChildren: 4, Pzxid: 7}}
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool {
					var q wire.WatchRequest
					if h.Op != wire.OpGetChildren2 || wire.Unmarshal(h.Body, &q) != nil {
						return false
					}
					switch q.Path {
					case "/app/whole":
						p.answer(h.Xid, zk.OK, &whole)
					case "/app/broken":
						p.answer(h.Xid, zk.OK, &wire.StringsResponse{Strings: names[:2]}) // and no stat
					default:
						p.answer(h.Xid, zk.ErrNoNode, nil)
					}
					return true
				})
			}
		})
		s := open(t, n, fakeAddr+"/app", client.Options{})
		for _, tt := range []struct {
			path string
			want []string
			stat zk.Stat
			says string
		}{
			{"/whole", names, whole.Stat, ""},
			{"/absent", nil, zk.Stat{}, "no such znode"},
			{"/broken", names[:2], zk.Stat{}, "record ends early"},
		} {
			var seen []string
			p := s.Pipeline()
			k := p.EachChild(tt.path, func(name string) { seen = append(seen, strings.Clone(name)) })
			p.Send(t.Context())
			stat, err := k.Wait(t.Context())
			if !slices.Equal(seen, tt.want) || stat != tt.stat {
				t.Errorf("%s: %q and %+v, want %q and %+v", tt.path, seen, stat, tt.want, tt.stat)
			}
			if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), tt.path)) {
				t.Errorf("%s: %v, want %q", tt.path, err, tt.says)
			}
		}
	})
}
