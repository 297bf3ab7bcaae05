package script

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A reading turns what a server sends into text: zxids are counted from the start of the case,
// sessions have the names of their connections, and times are "now" or what they should not be. All
// else is there, to the last byte, so that equal texts are equal answers.
type reading struct {
	base     int64            // zxid at the start of the case
	since    time.Time        // no node is older, unless the server made it by itself
	sessions map[int64]string // names, by id
	shown    map[int64][]Call // auth requests with credentials, by session
}

// show notes an auth request of a session, once.
func (r *reading) show(session int64, auth Call) {
	if r.shown == nil {
		r.shown = map[int64][]Call{}
	}
	if !slices.ContainsFunc(r.shown[session], func(c Call) bool { return slices.Equal(c.Args, auth.Args) }) {
		r.shown[session] = append(r.shown[session], auth)
	}
}

// zxid writes +3 for the third transaction of the case, and none for -1.
func (r *reading) zxid(z int64) string {
	switch {
	case z == -1:
		return "none"
	case z == 0:
		return "0"
	}
	return fmt.Sprintf("%+d", z-r.base)
}

func (r *reading) session(id int64) string {
	if name, ok := r.sessions[id]; ok {
		return name
	}
	return fmt.Sprintf("%#x", uint64(id))
}

func (r *reading) time(ms int64) string {
	if t := time.UnixMilli(ms); ms != 0 && !t.Before(r.since.Truncate(time.Millisecond)) && !t.After(time.Now()) {
		return "now"
	}
	return fmt.Sprint(ms)
}

func (r *reading) stat(s zk.Stat) string {
	mtime := r.time(s.Mtime)
	switch {
	case s.Mtime < s.Ctime:
		mtime = "before ctime"
	case s.Version == 0 && s.Mtime != s.Ctime:
		mtime = "not ctime"
	}
	return fmt.Sprintf("{c%s m%s p%s ctime %s mtime %s version %d,%d,%d owner %s bytes %d children %d}",
		r.zxid(s.Czxid), r.zxid(s.Mzxid), r.zxid(s.Pzxid), r.time(s.Ctime), mtime,
		s.Version, s.Cversion, s.Aversion, r.session(s.EphemeralOwner), s.DataLength, s.NumChildren)
}

func data(b []byte) string {
	const shown = 64
	switch {
	case b == nil:
		return null
	case len(b) > shown:
		return fmt.Sprintf("%d bytes %08x", len(b), crc32.ChecksumIEEE(b))
	}
	return fmt.Sprintf("%q", b)
}

func list(names []string, ordered bool) string {
	if names == nil {
		return null
	}
	if !ordered {
		names = sorted(names)
	}
	return fmt.Sprintf("%q", names)
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

func acls(acl []zk.ACL, ordered bool) string {
	if acl == nil {
		return null
	}
	out := make([]string, len(acl))
	for i, a := range acl {
		out[i] = fmt.Sprintf("%d:%s:%s", a.Perms, a.Scheme, a.ID)
	}
	return list(out, ordered)
}

// event writes a watch event.
func (r *reading) event(h wire.ReplyHeader, d *wire.Decoder) string {
	var ev wire.WatcherEvent
	ev.DecodeFrom(d)
	text := fmt.Sprintf("event %v %q", ev.Type, ev.Path)
	if h.Err != zk.OK || ev.State != wire.StateConnected {
		text += fmt.Sprintf(" err %d state %d", h.Err, ev.State)
	}
	return text + " at " + r.zxid(h.Zxid) + rest(d)
}

// answer writes a reply to a call.
func (r *reading) answer(c *Call, h wire.ReplyHeader, d *wire.Decoder) string {
	text := fmt.Sprintf("xid %d at %s", h.Xid, r.zxid(h.Zxid))
	if h.Err != zk.OK {
		return text + fmt.Sprintf(" error %d", h.Err) + rest(d)
	}
	op, _ := opOf(c)
	_, unordered := c.Mods["unordered"]
	if body := r.body(op, d, !unordered); body != "" {
		text += " " + body
	}
	return text + rest(d)
}

// body writes the record of a successful answer.
func (r *reading) body(op wire.Op, d *wire.Decoder, ordered bool) string {
	switch op {
	case wire.OpCreate, wire.OpSync:
		return r.string(d)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return r.string(d) + " " + r.stat(d.Stat())
	case wire.OpExists, wire.OpSetData, wire.OpSetACL:
		return r.stat(d.Stat())
	case wire.OpGetData, wire.OpReconfig:
		return data(d.Buffer()) + " " + r.stat(d.Stat())
	case wire.OpGetACL:
		return acls(d.ACL(), ordered) + " " + r.stat(d.Stat())
	case wire.OpGetChildren, wire.OpGetEphemerals:
		return list(d.Strings(), false)
	case wire.OpGetChildren2:
		return list(d.Strings(), false) + " " + r.stat(d.Stat())
	case wire.OpAllChildrenCount, wire.OpAddWatch:
		return fmt.Sprint(d.Int32())
	case wire.OpMulti, wire.OpMultiRead:
		return r.results(d)
	case wire.OpWhoAmI:
		ids := []string{}
		for range max(d.Count(8), 0) {
			ids = append(ids, r.string(d)+" "+r.string(d))
		}
		return list(ids, false)
	}
	return ""
}

func (r *reading) string(d *wire.Decoder) string {
	s, ok := d.NullString()
	if !ok {
		return null
	}
	return fmt.Sprintf("%q", s)
}

// results writes the results of a multi as they come, each with its header.
func (r *reading) results(d *wire.Decoder) string {
	var b strings.Builder
	for d.Err() == nil {
		op, done, code := wire.Op(d.Int32()), d.Bool(), d.Int32()
		fmt.Fprintf(&b, "[%d %t %d", op, done, code)
		if done {
			b.WriteString("]")
			break
		}
		body := ""
		if op == wire.OpError {
			body = fmt.Sprint(d.Int32())
		} else {
			body = r.body(op, d, true)
		}
		fmt.Fprintf(&b, " %s] ", body)
	}
	return b.String()
}

// rest writes what is left of a frame, which is nothing if all is well.
func rest(d *wire.Decoder) string {
	switch b := d.Rest(); {
	case d.Err() != nil:
		return fmt.Sprintf(" (cannot be read: %v)", d.Err())
	case len(b) > 0:
		return " and " + hex.EncodeToString(b)
	}
	return ""
}
