package attack

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// watchFlood sets watches on ever more znodes that are not there.
func watchFlood(ctx context.Context, addr string) {
	sessions(ctx, addr, unread, func(i int, s *stranger) {
		for round := 0; ctx.Err() == nil; round++ {
			q := &wire.SetWatchesRequest{RelativeZxid: 1 << 40, Data: []string{}, Child: []string{}}
			for bytes := 0; bytes < frameBytes-100; {
				path := fmt.Sprintf("/w%x/%x/%x", i, round, len(q.Exist))
				q.Exist = append(q.Exist, path)
				bytes += 4 + len(path)
			}
			if _, err := s.call(wire.OpSetWatches, q); err != nil {
				return
			}
		}
	})
}

// longPaths sets watches on paths as long as a frame.
func longPaths(ctx context.Context, addr string) {
	long := strings.Repeat("x", frameBytes-100)
	sessions(ctx, addr, unread, func(i int, s *stranger) {
		for round := 0; ctx.Err() == nil; round++ {
			if _, err := s.call(wire.OpExists, &wire.WatchRequest{Path: fmt.Sprintf("/%x-%x%s", i, round, long), Watch: true}); err != nil {
				return
			}
		}
	})
}

// sessionFlood opens sessions and leaves them to expire.
func sessionFlood(ctx context.Context, addr string) {
	crowd(ctx, unread, func(i int) {
		if s, err := open(ctx, addr, attackerHost(i)); err == nil {
			s.nc.Close()
		}
	})
}

// ephemeralFlood closes sessions that own as many ephemerals as a session may.
func ephemeralFlood(ctx context.Context, addr string) {
	sessions(ctx, addr, greedy, func(i int, s *stranger) {
		for from := 0; from < ephemerals; from += 1000 {
			var q wire.MultiRequest
			for k := range 1000 {
				q.Ops = append(q.Ops, wire.MultiOp{
					Op: wire.OpCreate, Path: fmt.Sprintf("/e%x-%x", i, from+k), ACL: zk.OpenACL(), Mode: zk.Ephemeral,
				})
			}
			if _, err := s.call(wire.OpMulti, &q); err != nil {
				return
			}
		}
		s.call(wire.OpCloseSession, nil)
	})
}

// ephemerals is how many short paths fit into the limit on a session's ephemerals.
const ephemerals = 50000

// connectionFlood opens connections, says nothing and keeps them.
func connectionFlood(ctx context.Context, addr string) {
	crowd(ctx, 1500, func(int) {
		s, err := dial(ctx, addr, 2)
		if err != nil {
			return
		}
		defer s.nc.Close()
		s.nc.SetReadDeadline(time.Now().Add(ioTimeout))
		s.in.ReadByte()
	})
}

// tlsFlood begins handshakes as fast as it can, without a certificate.
func tlsFlood(ctx context.Context, addr string) {
	crowd(ctx, unread, func(i int) {
		s, err := dial(ctx, addr, attackerHost(i))
		if err != nil {
			return
		}
		defer s.nc.Close()
		s.nc.SetDeadline(time.Now().Add(ioTimeout))
		c := tls.Client(s.nc, &tls.Config{InsecureSkipVerify: true})
		c.HandshakeContext(ctx)
		c.Read(make([]byte, 1))
	})
}

// fuzzed counts the frames that fuzz has sent.
var fuzzed atomic.Int64

// fuzz sends frames whose operations exist and whose records are random, or nearly right.
func fuzz(ctx context.Context, addr string) {
	sessions(ctx, addr, 2*greedy, func(i int, s *stranger) {
		go func() { // answers are of no interest, but must be taken
			for {
				if _, err := s.skip(); err != nil {
					return
				}
			}
		}()
		for ctx.Err() == nil {
			var b []byte
			n := 1 + rand.IntN(20)
			for range n {
				b = append(b, randomFrame()...)
			}
			fuzzed.Add(int64(n))
			if _, err := s.nc.Write(b); err != nil {
				return
			}
		}
	})
}

var fuzzOps = []wire.Op{
	wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpExists, wire.OpGetData,
	wire.OpSetData, wire.OpGetACL, wire.OpSetACL, wire.OpGetChildren, wire.OpGetChildren2, wire.OpSync, wire.OpPing,
	wire.OpMulti, wire.OpMultiRead, wire.OpCheck, wire.OpReconfig, wire.OpSetWatches, wire.OpSetWatches2, wire.OpAddWatch,
	wire.OpCheckWatches, wire.OpRemoveWatches, wire.OpWhoAmI, wire.OpGetEphemerals, wire.OpAllChildrenCount,
}

// randomFrame is a request that is wrong somewhere, most of the time.
func randomFrame() []byte {
	path := []string{"/zookeeper/f", "/zookeeper/f/g", "/", "", "f", "/zookeeper//f", "/\x00", "/zookeeper/\u202e"}[rand.IntN(8)]
	op := fuzzOps[rand.IntN(len(fuzzOps))]
	var r wire.Record
	switch rand.IntN(6) {
	case 0:
		r = &wire.CreateRequest{Path: path, Data: make([]byte, rand.IntN(100)), ACL: zk.OpenACL(), Mode: zk.Mode(rand.IntN(8))}
	case 1:
		r = &wire.SetDataRequest{Path: path, Data: make([]byte, rand.IntN(100)), Version: int32(rand.IntN(5) - 2)}
	case 2:
		r = &wire.MultiRequest{Ops: []wire.MultiOp{{Op: fuzzOps[rand.IntN(6)], Path: path, ACL: zk.OpenACL()}, {Op: wire.OpCheck, Path: path}}}
	default:
		r = &wire.WatchRequest{Path: path, Watch: rand.IntN(2) == 0}
	}
	b := frame(rand.Int32(), op, r)
	for range rand.IntN(4) { // damage, behind the header
		b[12+rand.IntN(len(b)-12)] = byte(rand.Uint32())
	}
	if rand.IntN(4) == 0 { // and a record that ends early, or is followed by more
		n := rand.IntN(len(b) - 12)
		b = b[:12+n]
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	}
	return b
}
