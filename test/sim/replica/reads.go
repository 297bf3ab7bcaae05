package replica

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/server/watch"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// answers are the requests that a replica answers itself: each returns the record behind the header, or a
// code.
var answers = map[wire.Op]func(k *conn, d *wire.Decoder) ([]byte, zk.Code){
	wire.OpPing:          func(*conn, *wire.Decoder) ([]byte, zk.Code) { return nil, zk.OK },
	wire.OpExists:        (*conn).exists,
	wire.OpGetData:       (*conn).data,
	wire.OpGetChildren2:  (*conn).children,
	wire.OpSetWatches:    (*conn).setWatches,
	wire.OpSetWatches2:   (*conn).setWatches,
	wire.OpRemoveWatches: (*conn).removeWatches,
	wire.OpAddWatch:      (*conn).addWatch,
}

// answerLocked answers a request from the replica's own tree.
func (k *conn) answerLocked(q *request) {
	h := wire.ReplyHeader{Xid: q.Xid, Zxid: k.r.tree.LastZxid()}
	var record []byte
	if serve := answers[q.Op]; serve != nil {
		record, h.Err = serve(k, wire.NewDecoder(q.body))
	} else {
		record = q.body // a sync is answered with its own record
	}
	if h.Err != zk.OK {
		record = nil
	}
	k.down.add(append(h.AppendTo(nil), record...))
}

func (k *conn) exists(d *wire.Decoder) ([]byte, zk.Code) {
	path, watched := d.String(), d.Bool()
	stat, code := k.r.tree.Exists(nil, path)
	if watched && (code == zk.OK || code == zk.ErrNoNode) {
		k.r.watches.Add(k.id, path, zk.WatchData)
	}
	return wire.AppendStat(nil, &stat), code
}

func (k *conn) data(d *wire.Decoder) ([]byte, zk.Code) {
	path, watched := d.String(), d.Bool()
	data, stat, code := k.r.tree.Get(nil, path)
	if watched && code == zk.OK {
		k.r.watches.Add(k.id, path, zk.WatchData)
	}
	return wire.AppendStat(wire.AppendBuffer(nil, data), &stat), code
}

func (k *conn) children(d *wire.Decoder) ([]byte, zk.Code) {
	path, watched := d.String(), d.Bool()
	kids, stat, code := k.r.tree.Children(nil, path)
	if code != zk.OK {
		return nil, code
	}
	if watched {
		k.r.watches.Add(k.id, path, zk.WatchChildren)
	}
	return wire.AppendStat(wire.AppendStrings(nil, slices.Collect(kids.Names())), &stat), code
}

func (k *conn) setWatches(d *wire.Decoder) ([]byte, zk.Code) {
	var q wire.SetWatchesRequest
	q.DecodeFrom(d)
	for _, ev := range k.r.watches.SetWatches(k.id, &q, k.r.tree.Lookup) {
		k.eventLocked(ev)
	}
	return nil, zk.OK
}

func (k *conn) removeWatches(d *wire.Decoder) ([]byte, zk.Code) {
	path, kind := d.String(), zk.WatchKind(d.Int32())
	return nil, (*watch.Table).Remove(k.r.watches, k.id, path, kind)
}

func (k *conn) addWatch(d *wire.Decoder) ([]byte, zk.Code) {
	var q wire.AddWatchRequest
	q.DecodeFrom(d)
	kind := zk.WatchPersistent
	if q.Mode == wire.AddWatchPersistentRecursive {
		kind = zk.WatchPersistentRecursive
	}
	k.r.watches.Add(k.id, q.Path, kind)
	return make([]byte, 4), zk.OK
}
