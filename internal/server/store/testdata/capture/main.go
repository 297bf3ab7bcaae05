// Command capture makes a ZooKeeper server write one of everything into its log. The folders beside
// it were made with it, from Apache ZooKeeper 3.8.0 with preAllocSize=4, extendedTypesEnabled=true
// and tickTime=60000; each is the version-2 folder of a server that was killed with SIGKILL,
// started again, and killed again:
//
//	plain    start; capture ADDR first; kill; start; capture ADDR second; kill
//	nodigest the same with zookeeper.digest.enabled=false, zookeeper.closeSessionTxn.enabled=false
//	         and zookeeper.snapshot.compression.method=gz
//	gaps     start; capture ADDR gaps; kill
package main

import (
	"fmt"
	"log"
	"net"
	"os"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: capture HOST:PORT first|second|gaps")
	}
	addr := os.Args[1]
	switch os.Args[2] {
	case "first":
		first(dial(addr), dial(addr))
	case "second":
		second(dial(addr))
	case "gaps":
		gaps(dial(addr))
	}
}

func first(a, b *session) {
	open := zk.OpenACL()
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a", Data: []byte("x"), ACL: open})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/null", ACL: open})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/empty", Data: []byte{}, ACL: zk.ReadOnlyACL()})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/ünïcode", Data: []byte{0, 255}, ACL: open})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a", ACL: open}) // exists
	a.do(wire.OpCreate2, &wire.CreateRequest{Path: "/a/two", Data: []byte("2"), ACL: open})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/seq-", ACL: open, Mode: zk.PersistentSequential})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/eph", Data: []byte("e"), ACL: open, Mode: zk.Ephemeral})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/eph-", ACL: open, Mode: zk.EphemeralSequential})
	a.do(wire.OpCreateContainer, &wire.CreateRequest{Path: "/a/container", ACL: open, Mode: zk.Container})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/container/kid", ACL: open})
	a.do(wire.OpCreateTTL, &wire.CreateTTLRequest{CreateRequest: wire.CreateRequest{Path: "/a/ttl", ACL: open, Mode: zk.PersistentTTL}, TTL: 3600000})
	a.do(wire.OpSetData, &wire.SetDataRequest{Path: "/a", Data: []byte("xx"), Version: 0})
	a.do(wire.OpSetData, &wire.SetDataRequest{Path: "/a", Data: []byte("no"), Version: 7}) // bad version
	a.do(wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("user:pw")})
	a.do(wire.OpSetACL, &wire.SetACLRequest{Path: "/a/two", ACL: append(zk.CreatorACL(), zk.ReadOnlyACL()...), Version: 0})
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/gone", ACL: open})
	a.do(wire.OpDelete, &wire.VersionRequest{Path: "/a/gone", Version: -1})
	a.do(wire.OpDelete, &wire.VersionRequest{Path: "/a/gone", Version: -1}) // no node
	a.do(wire.OpMulti, &wire.MultiRequest{Ops: []wire.MultiOp{
		{Op: wire.OpCheck, Path: "/a", Version: 1},
		{Op: wire.OpCreate, Path: "/m", Data: []byte("m"), ACL: open},
		{Op: wire.OpCreate, Path: "/m/eph", ACL: open, Mode: zk.Ephemeral},
		{Op: wire.OpCreate2, Path: "/m/two", ACL: open},
		{Op: wire.OpSetData, Path: "/m", Data: []byte("mm"), Version: 0},
		{Op: wire.OpDelete, Path: "/a/null", Version: 0},
	}})
	a.do(wire.OpMulti, &wire.MultiRequest{Ops: []wire.MultiOp{
		{Op: wire.OpCreate, Path: "/never", ACL: open},
		{Op: wire.OpDelete, Path: "/nowhere", Version: -1},
		{Op: wire.OpSetData, Path: "/a", Version: -1},
	}})
	a.do(wire.OpMulti, &wire.MultiRequest{})
	b.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/b-", Data: []byte("b"), ACL: open, Mode: zk.EphemeralSequential})
	b.do(wire.OpCreate, &wire.CreateRequest{Path: "/a/b-", ACL: open, Mode: zk.EphemeralSequential})
	b.do(wire.OpCloseSession, nil)
	a.do(wire.OpCreate, &wire.CreateRequest{Path: "/last", Data: make([]byte, 700), ACL: zk.DigestACL(zk.PermAll, "user", "pw")})
}

func second(c *session) {
	c.do(wire.OpCreate, &wire.CreateRequest{Path: "/later", ACL: zk.OpenACL(), Mode: zk.Ephemeral})
	c.do(wire.OpSetData, &wire.SetDataRequest{Path: "/a", Data: []byte("xxx"), Version: -1})
	c.do(wire.OpDelete, &wire.VersionRequest{Path: "/a/container/kid", Version: -1})
	c.do(wire.OpCloseSession, nil)
	d := dial(c.nc.RemoteAddr().String())
	d.do(wire.OpCreate, &wire.CreateRequest{Path: "/end", ACL: zk.OpenACL()})
}

// gaps makes the server number requests that it does not log.
func gaps(c *session) {
	c.do(wire.OpCreate, &wire.CreateRequest{Path: "/before", ACL: zk.OpenACL()})
	c.do(wire.OpMulti, nullPath{})
	c.do(wire.OpCreate, &wire.CreateRequest{Path: "/between", ACL: zk.OpenACL()})
	c.do(wire.OpMulti, nullPath{})
	c.do(wire.OpMulti, nullPath{})
	c.do(wire.OpCreate, &wire.CreateRequest{Path: "/after", ACL: zk.OpenACL()})
}

// nullPath is a multi that deletes the znode whose path is null.
type nullPath struct{}

func (nullPath) AppendTo(b []byte) []byte {
	b = append(wire.AppendInt32(b, int32(wire.OpDelete)), 0)
	b = wire.AppendInt32(b, -1)
	b = wire.AppendInt32(b, -1) // the path
	b = wire.AppendInt32(b, -1) // the version
	b = append(wire.AppendInt32(b, -1), 1)
	return wire.AppendInt32(b, -1)
}

func (nullPath) DecodeFrom(*wire.Decoder) {}

// A session sends one request at a time and prints the answer's zxid and code.
type session struct {
	nc  net.Conn
	xid int32
}

func dial(addr string) *session {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	s := &session{nc: nc}
	s.send((&wire.ConnectRequest{Timeout: 600000, Password: make([]byte, 16), HasReadOnly: true}).AppendTo)
	s.receive()
	return s
}

func (s *session) send(record func([]byte) []byte) {
	b, start := wire.BeginFrame(nil)
	if _, err := s.nc.Write(wire.EndFrame(record(b), start)); err != nil {
		log.Fatal(err)
	}
}

func (s *session) receive() []byte {
	b, err := wire.ReadFrame(s.nc, nil, wire.FrameBytesMax)
	if err != nil {
		log.Fatal(err)
	}
	return b
}

func (s *session) do(op wire.Op, r wire.Record) {
	s.xid++
	s.send(func(b []byte) []byte {
		b = (&wire.RequestHeader{Xid: s.xid, Op: op}).AppendTo(b)
		if r != nil {
			b = r.AppendTo(b)
		}
		return b
	})
	var h wire.ReplyHeader
	h.DecodeFrom(wire.NewDecoder(s.receive()))
	fmt.Printf("0x%x %v %v\n", h.Zxid, op, h.Err)
}
