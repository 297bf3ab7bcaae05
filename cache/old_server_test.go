package cache_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// unheardOf is the number of a request, and of a mode of watches, that no server knows.
const unheardOf = 4242

// withoutAddWatch makes a server that refuses persistent watches of one that has them, while refusal, a zk.Code, is not zk.OK. With
// zk.ErrUnimplemented it is one of before 3.6: what asks for one arrives as a request that the server does not know, so the answer ends
// the connection. With zk.ErrMarshalling it is one with WatchManagerOptimized: the request arrives with a mode that the server does not
// have, or with a list that cannot be decoded.
func withoutAddWatch(dial faultproxy.Dialer, refusal *atomic.Int32) faultproxy.Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &oldConn{Conn: nc, refusal: refusal}, nil
	}
}

// oldConn rewrites requests on their way to the server.
type oldConn struct {
	net.Conn
	refusal *atomic.Int32
	shook   bool // the handshake, which has no operation, is over
}

// Write is called with whole frames, as the fault proxy sends them.
func (c *oldConn) Write(p []byte) (int, error) {
	rest := append([]byte(nil), p...)
	whole := rest
	for len(rest) >= 4 {
		n := int(binary.BigEndian.Uint32(rest)) + 4
		if n > len(rest) {
			break
		}
		op, refusal := wire.Op(binary.BigEndian.Uint32(rest[8:])), zk.Code(c.refusal.Load())
		switch {
		case !c.shook || refusal == zk.OK || op != wire.OpAddWatch && op != wire.OpSetWatches2:
		case refusal == zk.ErrUnimplemented:
			binary.BigEndian.PutUint32(rest[8:], unheardOf)
		case op == wire.OpAddWatch: // which ends with the mode
			binary.BigEndian.PutUint32(rest[n-4:], unheardOf)
		default: // the lists begin behind a zxid
			binary.BigEndian.PutUint32(rest[20:], unheardOf)
		}
		c.shook = true
		rest = rest[n:]
	}
	return c.Conn.Write(whole)
}
