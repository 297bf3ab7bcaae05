package client

import (
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// rearm returns the requests that register again, on a new connection, what was armed on the last
// one. Each carries about bytesMax of paths: one frame with everything could be larger than the server
// accepts, which would end the connection, again and again (samuel/go-zookeeper 167).
func (t *watches) rearm(conn uint64, lastZxid int64, bytesMax int) []*call {
	p := rearmer{zxid: lastZxid, bytesMax: bytesMax}
	for key, spot := range t.spots {
		if len(spot.watches) == 0 {
			continue
		}
		spot.armed = true
		present, absent := false, false
		for _, w := range spot.watches {
			w.set = conn
			present, absent = present || !w.absent, absent || w.absent
		}
		switch {
		case key.table == childTable:
			p.add(&p.req.Child, key.path)
		default:
			if present {
				p.add(&p.req.Data, key.path)
			}
			if absent {
				p.add(&p.req.Exist, key.path)
			}
		}
	}
	for key, spot := range t.streams {
		if key.recursive {
			p.add(&p.req.Recursive, key.path)
		} else {
			p.add(&p.req.Persistent, key.path)
		}
		for _, st := range spot.streams {
			st.gapLocked() // persistent watches are not told what they missed
		}
	}
	p.cut()
	return p.calls
}

// rearmBytes is how much more than the request that set a watch the one may take that registers nothing but this watch
// again.
const rearmBytes = 27

// A rearmer packs paths into requests.
type rearmer struct {
	zxid     int64
	bytesMax int
	req      wire.SetWatchesRequest
	bytes    int // of paths in req
	calls    []*call
}

func (p *rearmer) add(list *[]string, path string) {
	if p.bytes > 0 && p.bytes+len(path) > p.bytesMax {
		p.cut()
	}
	*list = append(*list, path)
	p.bytes += len(path) + 4
}

// cut closes the request at hand.
func (p *rearmer) cut() {
	if p.bytes == 0 {
		return
	}
	p.req.RelativeZxid = p.zxid
	p.calls = append(p.calls, ownCall(p.req.Op(), "register watches again", "", &p.req))
	p.req, p.bytes = wire.SetWatchesRequest{}, 0
}
