package locksuite

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// Expire ends a client's session on the ensemble, as expiry does: all at once, without telling the client,
// whose connection is closed. It attaches to the session, as any client can that knows its password, and
// closes it. The client may be faster and take the session back; then it is done again.
func (w *World) Expire(s *client.Session) {
	w.t.Helper()
	ctx := w.Context()
	for !w.expire(ctx, s) {
		if ctx.Err() != nil {
			w.t.Fatalf("expire session %v: %v", s, ctx.Err())
		}
	}
}

// expire reports false if the session was taken back before it was closed.
func (w *World) expire(ctx context.Context, s *client.Session) bool {
	w.t.Helper()
	nc, err := w.Dial(ctx, "tcp", strings.Split(w.Servers, ",")[0])
	if err != nil {
		w.t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	password := session.ApachePassword(s.ID())
	err = wire.WriteRecord(nc, &wire.ConnectRequest{
		Timeout: int32(w.Timeout.Milliseconds()), SessionID: s.ID(), Password: password[:], HasReadOnly: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	frame, err := wire.ReadFrame(nc, nil, wire.FrameBytesMax)
	if errors.Is(err, io.EOF) {
		return false // a server hangs up on a session's old connection when it sees the new one
	}
	var resp wire.ConnectResponse
	err = errors.Join(err, wire.Unmarshal(frame, &resp))
	if err == nil && resp.Timeout <= 0 {
		return true // it has expired by itself, or by an earlier try
	}
	if err != nil || resp.SessionID != s.ID() {
		w.t.Fatalf("attach to session %v: answered with 0x%x, %v", s, resp.SessionID, err)
	}
	// Without an answer the connection is not the session's any more: the client has taken the session back, and
	// the server may ignore this connection, without an answer and without an end.
	nc.SetDeadline(time.Now().Add(answerLimit))
	if err := wire.WriteRecord(nc, &closeRequest{}); err != nil {
		return false
	}
	_, err = wire.ReadFrame(nc, nil, wire.FrameBytesMax)
	return err == nil
}

// answerLimit bounds the wait for the answer to a closeSession. It is far above what a server on this machine
// takes, and far below the time after which a server gives up an idle connection (the session's timeout).
const answerLimit = time.Second

// closeRequest is the header of a closeSession, which is all of it.
type closeRequest struct{}

func (closeRequest) AppendTo(b []byte) []byte {
	return (&wire.RequestHeader{Xid: 1, Op: wire.OpCloseSession}).AppendTo(b)
}
func (closeRequest) DecodeFrom(*wire.Decoder) {}
