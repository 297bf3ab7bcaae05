package tree

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// digestVersion is the version of ZooKeeper's digest that is computed here.
const digestVersion = 2

// A digester computes what a znode adds to the digest of its tree. It is a scratch pad.
type digester struct{ tail [60]byte }

// A head is the checksum of a znode's path and data, with which the checksum of the znode begins. It is kept with znodes
// that have children: their attributes change with each child, and their data may be long.
type head struct {
	crc   uint32
	known bool
}

// sum returns a node's digest. The root's path counts as empty. Nodes below /zookeeper count 0:
// servers keep usage of quotas there, without transactions. The head is that of path and data, or not known and then
// filled in.
func (d *digester) sum(h *head, path string, data []byte, a *attrs) uint32 {
	if strings.HasPrefix(path, "/zookeeper/") {
		return 0
	}
	if !h.known {
		if path == "/" {
			path = ""
		}
		crc := crc32.Update(0, crc32.IEEETable, view(path))
		*h = head{crc32.Update(crc, crc32.IEEETable, data), true}
	}
	b := binary.BigEndian.AppendUint64(d.tail[:0], uint64(a.czxid))
	b = binary.BigEndian.AppendUint64(b, uint64(a.mzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(a.pzxid))
	b = binary.BigEndian.AppendUint64(b, uint64(a.ctime))
	b = binary.BigEndian.AppendUint64(b, uint64(a.mtime))
	b = binary.BigEndian.AppendUint32(b, uint32(a.version))
	b = binary.BigEndian.AppendUint32(b, uint32(a.cversion))
	b = binary.BigEndian.AppendUint32(b, uint32(a.aversion))
	b = binary.BigEndian.AppendUint64(b, uint64(a.owner))
	return crc32.Update(h.crc, crc32.IEEETable, b)
}
