package wire

import "github.com/lockkeeper/lockkeeper/zk"

// AppendStat appends a stat, 68 bytes.
func AppendStat(b []byte, s *zk.Stat) []byte {
	b = AppendInt64(b, s.Czxid)
	b = AppendInt64(b, s.Mzxid)
	b = AppendInt64(b, s.Ctime)
	b = AppendInt64(b, s.Mtime)
	b = AppendInt32(b, s.Version)
	b = AppendInt32(b, s.Cversion)
	b = AppendInt32(b, s.Aversion)
	b = AppendInt64(b, s.EphemeralOwner)
	b = AppendInt32(b, s.DataLength)
	b = AppendInt32(b, s.NumChildren)
	return AppendInt64(b, s.Pzxid)
}

// Stat reads a stat.
func (d *Decoder) Stat() zk.Stat {
	return zk.Stat{
		Czxid: d.Int64(), Mzxid: d.Int64(), Ctime: d.Int64(), Mtime: d.Int64(),
		Version: d.Int32(), Cversion: d.Int32(), Aversion: d.Int32(),
		EphemeralOwner: d.Int64(), DataLength: d.Int32(), NumChildren: d.Int32(), Pzxid: d.Int64(),
	}
}

// AppendACL appends an access control list; nil goes out as null.
func AppendACL(b []byte, acl []zk.ACL) []byte {
	if acl == nil {
		return AppendInt32(b, -1)
	}
	b = AppendInt32(b, int32(len(acl)))
	for _, a := range acl {
		b = AppendString(AppendString(AppendInt32(b, int32(a.Perms)), a.Scheme), a.ID)
	}
	return b
}

// aclBytesMin is what the smallest ACL entry takes: permissions and two empty strings.
const aclBytesMin = 12

// ACL reads an access control list; null is nil. As in Apache ZooKeeper, a null scheme is a scheme that does not exist,
// and the id may be null where the scheme does not look at it: kazoo sends "auth" so.
func (d *Decoder) ACL() []zk.ACL {
	n := d.Count(aclBytesMin)
	if n < 0 {
		return nil
	}
	acl := make([]zk.ACL, 0, n)
	for range n {
		a := zk.ACL{Perms: zk.Perm(d.Int32())}
		a.Scheme, _ = d.nullWord()
		id, ok := d.nullWord()
		if !ok && (a.Scheme == "world" || a.Scheme == "digest" || a.Scheme == "ip") {
			d.Fail(errNullString)
		}
		a.ID = id
		acl = append(acl, a)
	}
	if d.err != nil {
		return nil
	}
	return acl
}
