package main

import (
	"bufio"
	"fmt"
	"io"
	"net"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	nullFrameBytes  = 1 << 20
	nullBufferBytes = 16 << 10
)

// newNullServer returns a server that keeps nothing. It answers as a ZooKeeper would if all were well: reads at
// once with data of its own, writes when they are written and synced. What a client reaches with it is what
// this client can reach on this machine and this disk, with any server.
func newNullServer(dir string) (*server, error) {
	return newSelf(dir, "null", "null")
}

// serveNull is that server.
func serveNull(addr, dir string) error {
	log, err := newSyncedLog(dir)
	if err != nil {
		return err
	}
	return serveEach(addr, func(nc net.Conn) error {
		c := &nullConn{log: log, in: bufio.NewReaderSize(nc, nullBufferBytes), out: nc}
		return c.serve()
	})
}

// A nullConn is one client's connection.
type nullConn struct {
	log     *syncedLog
	in      *bufio.Reader
	out     io.Writer
	frame   []byte
	answers []byte
	records []byte // of the writes among what is answered next
}

// serve answers together what came together.
func (c *nullConn) serve() error {
	if err := c.shakeHands(); err != nil {
		return err
	}
	for {
		if err := c.next(); err != nil {
			return err
		}
		if c.in.Buffered() > 0 {
			continue
		}
		if len(c.records) > 0 {
			if err := c.log.put(c.records); err != nil {
				return err
			}
		}
		if _, err := c.out.Write(c.answers); err != nil {
			return err
		}
		c.answers, c.records = c.answers[:0], c.records[:0]
	}
}

func (c *nullConn) read(r wire.Record) error {
	var err error
	if c.frame, err = wire.ReadFrame(c.in, c.frame, nullFrameBytes); err != nil {
		return err
	}
	return wire.Unmarshal(c.frame, r)
}

func (c *nullConn) shakeHands() error {
	var request wire.ConnectRequest
	if err := c.read(&request); err != nil {
		return err
	}
	return wire.WriteRecord(c.out, &wire.ConnectResponse{Timeout: request.Timeout, SessionID: 1, Password: make([]byte, 16)})
}

var (
	nullStat = wire.StatResponse{Stat: zk.Stat{DataLength: valueBytes}}
	nullData = wire.DataResponse{Data: value, Stat: nullStat.Stat}
)

// next appends the answer to the next request.
func (c *nullConn) next() error {
	var err error
	if c.frame, err = wire.ReadFrame(c.in, c.frame, nullFrameBytes); err != nil {
		return err
	}
	d := wire.NewDecoder(c.frame)
	var header wire.RequestHeader
	header.DecodeFrom(d)
	b, start := wire.BeginFrame(c.answers)
	reply := wire.ReplyHeader{Xid: header.Xid, Zxid: 1}
	b = reply.AppendTo(b)
	switch header.Op {
	case wire.OpPing, wire.OpCloseSession:
	case wire.OpGetData:
		b = nullData.AppendTo(b)
	case wire.OpSetData:
		b = nullStat.AppendTo(b)
		c.noteWrite()
	case wire.OpCreate:
		var path wire.PathRecord
		path.DecodeFrom(d)
		b = path.AppendTo(b)
		c.noteWrite()
	case wire.OpDelete:
		c.noteWrite()
	default:
		return fmt.Errorf("no answer to op %d", header.Op)
	}
	c.answers = wire.EndFrame(b, start)
	return d.Err()
}

// noteWrite adds what a write takes in a log.
func (c *nullConn) noteWrite() { c.records = append(c.records, make([]byte, recordBytes)...) }
