package attack

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ioTimeout bounds a step that the server has no reason to delay.
const ioTimeout = 20 * time.Second

// stranger is a connection that speaks the protocol by hand.
type stranger struct {
	nc      net.Conn
	in      *bufio.Reader
	xid     int32
	session int64
}

// dial connects from 127.0.0.host, so that several attackers have addresses of their own.
func dial(ctx context.Context, addr string, host byte) (*stranger, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}, Timeout: ioTimeout}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { nc.Close() })
	return &stranger{nc: nc, in: bufio.NewReaderSize(nc, 16<<10)}, nil
}

// open connects and opens a session.
func open(ctx context.Context, addr string, host byte) (*stranger, error) {
	s, err := dial(ctx, addr, host)
	if err != nil {
		return nil, err
	}
	if err := s.connect(wire.ConnectRequest{Timeout: 4000, Password: make([]byte, 16)}); err != nil {
		s.nc.Close()
		return nil, err
	}
	return s, nil
}

var errNoSession = errors.New("no session granted")

func (s *stranger) connect(q wire.ConnectRequest) error {
	s.nc.SetDeadline(time.Now().Add(ioTimeout))
	defer s.nc.SetDeadline(time.Time{})
	if err := wire.WriteRecord(s.nc, &q); err != nil {
		return err
	}
	b, err := wire.ReadFrame(s.in, nil, 1<<20)
	if err != nil {
		return err
	}
	var a wire.ConnectResponse
	if err := wire.Unmarshal(b, &a); err != nil {
		return err
	}
	s.session = a.SessionID
	if s.session == 0 {
		return errNoSession
	}
	return nil
}

// frame is a request in its frame.
func frame(xid int32, op wire.Op, r wire.Record) []byte {
	b, start := wire.BeginFrame(nil)
	h := wire.RequestHeader{Xid: xid, Op: op}
	b = h.AppendTo(b)
	if r != nil {
		b = r.AppendTo(b)
	}
	return wire.EndFrame(b, start)
}

// call sends a request and waits for its answer.
func (s *stranger) call(op wire.Op, r wire.Record) (zk.Code, error) {
	s.xid++
	return s.exchange(frame(s.xid, op, r), s.xid)
}

// exchange sends a frame and waits for the answer with this xid.
func (s *stranger) exchange(b []byte, xid int32) (zk.Code, error) {
	s.nc.SetDeadline(time.Now().Add(ioTimeout))
	defer s.nc.SetDeadline(time.Time{})
	if _, err := s.nc.Write(b); err != nil {
		return 0, err
	}
	for {
		h, err := s.skip()
		if err != nil {
			return 0, err
		}
		if h.Xid == xid {
			return h.Err, nil
		}
	}
}

// skip reads an answer and keeps only its header.
func (s *stranger) skip() (wire.ReplyHeader, error) {
	var h wire.ReplyHeader
	head := make([]byte, 4+16)
	if _, err := io.ReadFull(s.in, head); err != nil {
		return h, err
	}
	h.DecodeFrom(wire.NewDecoder(head[4:]))
	rest := int64(binary.BigEndian.Uint32(head)) - 16
	_, err := io.CopyN(io.Discard, s.in, rest)
	return h, err
}

// must is call for what prepares an attack.
func (s *stranger) must(op wire.Op, r wire.Record) error {
	code, err := s.call(op, r)
	if err == nil && code != zk.OK && code != zk.ErrNodeExists {
		err = fmt.Errorf("%v: %v", op, code)
	}
	return err
}

func (s *stranger) create(path string, data []byte, acl []zk.ACL) error {
	return s.must(wire.OpCreate, &wire.CreateRequest{Path: path, Data: data, ACL: acl})
}
