package attack

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// attack is one thing that a stranger may do to a server.
type attack struct {
	name    string
	prepare func(ctx context.Context, addr string) error // makes the znodes that run needs; may be nil
	run     func(ctx context.Context, addr string)       // goes on until ctx ends
	secure  bool                                         // against the port with TLS
}

// What limits every attack.
const (
	greedy     = 8  // connections that send requests which cost much
	unread     = 50 // connections that read no answers
	frameBytes = wire.FrameBytesMax - 1024
	pause      = time.Millisecond // before a connection that was refused is tried again
)

// names is how many children the large directories have.
var names = 200000

var attacks = []attack{
	{name: "none", run: func(ctx context.Context, _ string) { <-ctx.Done() }},
	{name: "ACL of 1,024 networks, multiRead", prepare: prepareIP, run: func(ctx context.Context, addr string) {
		repeat(ctx, addr, greedy, nil, manyReads("/ip"))
	}},
	{name: "ACL of 1,024 networks, multi", prepare: prepareIP, run: func(ctx context.Context, addr string) {
		repeat(ctx, addr, greedy, nil, manyChecks("/ip"))
	}},
	{name: "ACL of 1,024 digests, 127 identities", prepare: prepareDigest, run: func(ctx context.Context, addr string) {
		repeat(ctx, addr, greedy, manyIdentities, manyReads("/digest"))
	}},
	{name: "multi of long ACLs", run: func(ctx context.Context, addr string) {
		repeat(ctx, addr, greedy, nil, longLists())
	}},
	{name: "multi of creates and deletes", run: func(ctx context.Context, addr string) {
		repeat(ctx, addr, greedy, nil, createsAndDeletes())
	}},
	{name: "multis of 250 sets", prepare: prepareData, run: func(ctx context.Context, addr string) {
		sets := slices.Repeat([]wire.MultiOp{{Op: wire.OpSetData, Path: "/data", Version: -1}}, 250)
		repeat(ctx, addr, 2*greedy, nil, slices.Repeat(frame(1, wire.OpMulti, &wire.MultiRequest{Ops: sets}), 16))
	}},
	{name: "sets far down, recursive watches", prepare: prepareDeep, run: func(ctx context.Context, addr string) {
		sets := slices.Repeat([]wire.MultiOp{{Op: wire.OpSetData, Path: deepPath(levels), Version: -1}}, frameBytes/2/len(deepPath(levels)))
		repeat(ctx, addr, greedy, watchAllDepths, frame(1, wire.OpMulti, &wire.MultiRequest{Ops: sets}))
	}},
	{name: "names of a large directory, unread", prepare: prepareNames, run: func(ctx context.Context, addr string) {
		ask := frame(1, wire.OpGetChildren, &wire.WatchRequest{Path: "/names"})
		ignore(ctx, addr, slices.Repeat(ask, 4))
	}},
	{name: "names behind a write, unread", prepare: prepareNames, run: func(ctx context.Context, addr string) {
		ask := frame(1, wire.OpSetData, &wire.SetDataRequest{Path: "/names", Version: -1})
		ignore(ctx, addr, append(ask, slices.Repeat(frame(1, wire.OpGetChildren, &wire.WatchRequest{Path: "/names"}), 4)...))
	}},
	{name: "names, read", prepare: prepareNames, run: func(ctx context.Context, addr string) {
		repeat(ctx, addr, greedy, nil, frame(1, wire.OpGetChildren2, &wire.WatchRequest{Path: "/names"}))
	}},
	{name: "multiRead of names, unread", prepare: prepareShort, run: func(ctx context.Context, addr string) {
		q := &wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetChildren, Path: "/short"}}, 7)}
		ignore(ctx, addr, slices.Repeat(frame(1, wire.OpMultiRead, q), 4))
	}},
	{name: "data of 1 MB, unread", prepare: prepareData, run: func(ctx context.Context, addr string) {
		ignore(ctx, addr, slices.Repeat(frame(1, wire.OpGetData, &wire.WatchRequest{Path: "/data"}), 100))
	}},
	{name: "handshakes of 1 MB", run: func(ctx context.Context, addr string) {
		hold(ctx, addr, 400, false)
	}},
	{name: "requests of 1 MB, never whole", run: func(ctx context.Context, addr string) {
		hold(ctx, addr, 400, true)
	}},
	{name: "setWatches", run: watchFlood},
	{name: "watches on long paths", run: longPaths},
	{name: "sessions", run: sessionFlood},
	{name: "ends of sessions with many znodes", run: ephemeralFlood},
	{name: "connections", run: connectionFlood},
	{name: "wrong passwords", run: func(ctx context.Context, addr string) {
		crowd(ctx, greedy, func(i int) {
			if s, err := dial(ctx, addr, attackerHost(i)); err == nil {
				s.connect(wire.ConnectRequest{Timeout: 4000, SessionID: 0x100000000000000 + int64(i), Password: make([]byte, 16)})
				s.nc.Close()
			}
		})
	}},
	{name: "failed authentication", run: func(ctx context.Context, addr string) {
		crowd(ctx, greedy, func(i int) {
			if s, err := open(ctx, addr, attackerHost(i)); err == nil {
				s.call(wire.OpAuth, &wire.AuthRequest{Scheme: "sesame", Auth: []byte("open")})
				s.nc.Close()
			}
		})
	}},
	{name: "TLS handshakes", run: tlsFlood, secure: true},
	{name: "requests without a pause", run: func(ctx context.Context, addr string) {
		repeat(ctx, addr, unread, nil, slices.Repeat(frame(1, wire.OpExists, &wire.WatchRequest{Path: "/"}), 200))
	}},
	{name: "random frames", run: fuzz},
}

// attackerHost is the address of the i-th attacker: 127.0.0.2 for most, so that limits per address count.
func attackerHost(i int) byte { return byte(2 + i/unread) }

// crowd calls do again and again on n goroutines until ctx ends.
func crowd(ctx context.Context, n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				do(i)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	wg.Wait()
}

// sessions is crowd for attacks that need a session each time.
func sessions(ctx context.Context, addr string, n int, do func(i int, s *stranger)) {
	crowd(ctx, n, func(i int) {
		if s, err := open(ctx, addr, attackerHost(i)); err == nil {
			defer s.nc.Close()
			do(i, s)
		}
	})
}

// repeat sends a frame, or several with one xid, on n connections and reads the answers.
func repeat(ctx context.Context, addr string, n int, introduce func(*stranger) error, b []byte) {
	frames := 0
	for rest := b; len(rest) > 0; rest = rest[4+binary.BigEndian.Uint32(rest):] {
		frames++
	}
	sessions(ctx, addr, n, func(i int, s *stranger) {
		if introduce != nil && introduce(s) != nil {
			return
		}
		for ctx.Err() == nil {
			if _, err := s.nc.Write(b); err != nil {
				return
			}
			for range frames {
				if _, err := s.skip(); err != nil {
					return
				}
			}
		}
	})
}

// ignore sends requests on many connections and reads no answer.
func ignore(ctx context.Context, addr string, b []byte) {
	sessions(ctx, addr, unread, func(i int, s *stranger) {
		for ctx.Err() == nil {
			if _, err := s.nc.Write(b); err != nil {
				return
			}
		}
	})
}

// hold sends frames of a megabyte less one byte, and keeps the connections open.
func hold(ctx context.Context, addr string, n int, session bool) {
	b := make([]byte, 4+wire.FrameBytesMax-1)
	binary.BigEndian.PutUint32(b, wire.FrameBytesMax)
	binary.BigEndian.PutUint32(b[4:], 1)
	binary.BigEndian.PutUint32(b[8:], uint32(wire.OpCreate))
	crowd(ctx, n, func(i int) {
		dialer := dial
		if session {
			dialer = open
		}
		s, err := dialer(ctx, addr, attackerHost(i))
		if err != nil {
			return
		}
		defer s.nc.Close()
		if _, err := s.nc.Write(b); err == nil {
			s.skip()
		}
	})
}

func prepareIP(ctx context.Context, addr string) error {
	acl := make([]zk.ACL, 1024)
	for i := range acl {
		acl[i] = zk.ACL{Perms: zk.PermAll, Scheme: "ip", ID: fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)}
	}
	acl[len(acl)-1].ID = "127.0.0.0/8"
	return prepareNode(ctx, addr, "/ip", nil, acl)
}

func prepareDigest(ctx context.Context, addr string) error {
	acl := make([]zk.ACL, 1024)
	for i := range acl {
		acl[i] = zk.ACL{Perms: zk.PermAll, Scheme: "digest", ID: zk.DigestID(fmt.Sprintf("other%d:secret", i))}
	}
	return prepareNode(ctx, addr, "/digest", nil, acl)
}

// manyIdentities authenticates as often as most servers allow.
func manyIdentities(s *stranger) error {
	for i := range 127 {
		if code, err := s.call(wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: fmt.Appendf(nil, "me%d:secret", i)}); err != nil || code != zk.OK {
			if err == nil {
				return nil // the server has its limit; what has been reached will do
			}
			return err
		}
	}
	return nil
}

func prepareData(ctx context.Context, addr string) error {
	return prepareNode(ctx, addr, "/data", make([]byte, frameBytes), zk.OpenACL())
}

// levels is how deep the deepest znode is.
const levels = 4000

func deepPath(n int) string { return strings.Repeat("/d", n) }

func prepareDeep(ctx context.Context, addr string) error {
	s, err := open(ctx, addr, 1)
	if err != nil {
		return err
	}
	defer s.nc.Close()
	var q wire.MultiRequest
	bytes := 0
	for n := 1; n <= levels; n++ {
		q.Ops = append(q.Ops, wire.MultiOp{Op: wire.OpCreate, Path: deepPath(n), ACL: zk.OpenACL()})
		bytes += len(deepPath(n)) + 100
		if bytes < frameBytes*3/4 && n < levels {
			continue
		}
		if err := s.must(wire.OpMulti, &q); err != nil {
			return err
		}
		q.Ops, bytes = nil, 0
	}
	return nil
}

// watchAllDepths sets recursive watches on paths of all lengths that a path above the deepest znode has, and on none of these paths.
func watchAllDepths(s *stranger) error {
	for n := 1; n < levels; n++ {
		if err := s.must(wire.OpAddWatch, &wire.AddWatchRequest{Path: "/x" + deepPath(n-1), Mode: 1}); err != nil {
			return err
		}
	}
	return nil
}

func prepareNode(ctx context.Context, addr, path string, data []byte, acl []zk.ACL) error {
	s, err := open(ctx, addr, 2)
	if err != nil {
		return err
	}
	defer s.nc.Close()
	return s.create(path, data, acl)
}

func prepareNames(ctx context.Context, addr string) error {
	return prepareDirectory(ctx, addr, "/names", strings.Repeat("n", 70))
}

func prepareShort(ctx context.Context, addr string) error {
	return prepareDirectory(ctx, addr, "/short", "")
}

// prepareDirectory makes a directory of many children whose names begin with prefix.
func prepareDirectory(ctx context.Context, addr, path, prefix string) error {
	s, err := open(ctx, addr, 2)
	if err != nil {
		return err
	}
	defer s.nc.Close()
	if err := s.create(path, nil, zk.OpenACL()); err != nil {
		return err
	}
	const batch = 1000
	for from := 0; from < names; from += batch {
		var q wire.MultiRequest
		for i := range batch {
			q.Ops = append(q.Ops, wire.MultiOp{Op: wire.OpCreate, Path: fmt.Sprintf("%s/%s%x", path, prefix, from+i), ACL: zk.OpenACL()})
		}
		if err := s.must(wire.OpMulti, &q); err != nil {
			return err
		}
	}
	return nil
}

// fill returns frames with as many of these operations as a frame holds, and as many as this repository's server allows.
func fill(kind wire.Op, ops ...wire.MultiOp) []byte {
	one := len((&wire.MultiRequest{Ops: ops}).AppendTo(nil))
	full := frameBytes / one
	b := frame(1, kind, &wire.MultiRequest{Ops: slices.Repeat(ops, full)})
	return append(b, frame(1, kind, &wire.MultiRequest{Ops: slices.Repeat(ops, min(full, opsMax/len(ops)))})...)
}

// opsMax is how many operations this repository's server allows in a multi.
const opsMax = 10000

func manyReads(path string) []byte {
	return fill(wire.OpMultiRead, wire.MultiOp{Op: wire.OpGetData, Path: path})
}

func manyChecks(path string) []byte {
	return fill(wire.OpMulti, wire.MultiOp{Op: wire.OpCheck, Path: path, Version: -1})
}

func createsAndDeletes() []byte {
	return fill(wire.OpMulti, wire.MultiOp{Op: wire.OpCreate, Path: "/zookeeper/x", ACL: zk.OpenACL()}, wire.MultiOp{Op: wire.OpDelete, Path: "/zookeeper/x", Version: -1})
}

// longLists is a multi of creates, each with as many different entries as a list may have.
func longLists() []byte {
	acl := make([]zk.ACL, 1024)
	for i := range acl {
		acl[i] = zk.ACL{Perms: zk.PermAll, Scheme: "ip", ID: fmt.Sprintf("10.0.%d.%d", i/256, i%256)}
	}
	return fill(wire.OpMulti, wire.MultiOp{Op: wire.OpCreate, Path: "/zookeeper/l", ACL: acl}, wire.MultiOp{Op: wire.OpDelete, Path: "/zookeeper/l", Version: -1})
}
