package roles

import (
	"context"
	"encoding/binary"
	"net"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// unheardOf is the number of a request that no server knows.
const unheardOf = 4242

// withoutAddWatch makes a server of before 3.6 of one that has persistent watches: what asks for one arrives as a request
// that the server does not know. Such servers answer that it is not implemented, and end the connection.
func withoutAddWatch(dial faultproxy.Dialer) faultproxy.Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &oldConn{Conn: nc}, nil
	}
}

// oldConn rewrites requests on their way to the server.
type oldConn struct {
	net.Conn
	shook bool // the handshake, which has no operation, is over
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
		if op := wire.Op(binary.BigEndian.Uint32(rest[8:])); c.shook && (op == wire.OpAddWatch || op == wire.OpSetWatches2) {
			binary.BigEndian.PutUint32(rest[8:], unheardOf)
		}
		c.shook = true
		rest = rest[n:]
	}
	return c.Conn.Write(whole)
}
