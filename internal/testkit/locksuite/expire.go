package locksuite

import (
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
	for !w.expire(s) {
	}
}

// expire reports false if the session was taken back before it was closed.
func (w *World) expire(s *client.Session) bool {
	w.t.Helper()
	nc, err := w.Dial(w.Context(), "tcp", strings.Split(w.Servers, ",")[0])
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
	if errors.Is(err, io.EOF) && w.Context().Err() == nil {
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
	// The answer, and then the end. Without an answer the connection was not the session's any more.
	err = wire.WriteRecord(nc, &closeRequest{})
	answer, readErr := io.Copy(io.Discard, nc)
	if answer == 0 && w.Context().Err() == nil {
		return false
	}
	if err = errors.Join(err, readErr); err != nil {
		w.t.Fatal(err)
	}
	return true
}

// closeRequest is the header of a closeSession, which is all of it.
type closeRequest struct{}

func (closeRequest) AppendTo(b []byte) []byte {
	return (&wire.RequestHeader{Xid: 1, Op: wire.OpCloseSession}).AppendTo(b)
}
func (closeRequest) DecodeFrom(*wire.Decoder) {}
