package script

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	// answerTimeout bounds the wait for anything that must come.
	answerTimeout = 20 * time.Second
	// replyBytesMax bounds a frame from the server.
	replyBytesMax = 64 << 20
	// sessionTimeout is what connections ask for unless the script says otherwise: none of them
	// pings by itself.
	sessionTimeout = 2 * time.Minute
)

// A Player plays cases to one server, one after the other.
type Player struct {
	addr    string
	since   time.Time
	control *conn // a super user's, to clean up with
}

// NewPlayer connects to the server at addr, which knows a super user by the credential super.
// Nothing but what it plays may change the server from now on.
func NewPlayer(addr, super string) (*Player, error) {
	p := &Player{addr: addr, since: time.Now()}
	r := &reading{sessions: map[int64]string{0: "nobody"}, since: p.since}
	p.control = &conn{name: "control", addr: addr, reading: r}
	if out := p.control.connect(&Call{Verb: "connect"}, nil); p.control.opened.SessionID == 0 {
		return nil, fmt.Errorf("connect to %s: %s", addr, out)
	}
	if _, _, err := p.control.ask("auth", "digest", super); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close hangs up.
func (p *Player) Close() { p.control.drop() }

// Touch writes to the znodes of the server's own in a fixed order, so that the zxids in their stats
// are those of all players that did so last, and returns how often children of the root came and
// went.
func (p *Player) Touch() (cversion int32, err error) {
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/config"} {
		if _, _, err := p.control.ask("setData", path, "", "-1"); err != nil {
			return 0, err
		}
	}
	for _, dir := range []string{"/zookeeper/quota", "/zookeeper", "/"} {
		path := zk.Join(dir, "touched")
		if _, _, err := p.control.ask("create", path, "", "open", "0"); err != nil {
			return 0, err
		}
		if _, _, err := p.control.ask("delete", path, "-1"); err != nil {
			return 0, err
		}
	}
	_, d, err := p.control.ask("exists", "/")
	if err != nil {
		return 0, err
	}
	return d.Stat().Cversion, nil
}

// Advance makes one child of the root come and go.
func (p *Player) Advance() error {
	if _, _, err := p.control.ask("create", "/advance", "", "open", "0"); err != nil {
		return err
	}
	_, _, err := p.control.ask("delete", "/advance", "-1")
	return err
}

// A Round is a case being played.
type Round struct {
	p       *Player
	reading *reading
	conns   map[string]*conn
	order   []*conn
}

// Begin begins a case: zxids are counted from here.
func (p *Player) Begin() (*Round, error) {
	h, _, err := p.control.ask("exists", "/")
	if err != nil {
		return nil, err
	}
	return &Round{p: p, conns: map[string]*conn{},
		reading: &reading{base: h.Zxid, since: p.since, sessions: map[int64]string{0: "nobody"}}}, nil
}

// End closes the sessions of the case, lest one of them expire during another, and deletes what it
// has left.
func (r *Round) End() error {
	for _, c := range r.order {
		c.drop()
		if c.opened.SessionID == 0 {
			continue
		}
		c.connect(&Call{Verb: "connect", Args: []string{"resume=" + c.name}}, r.conns)
		if c.nc != nil && c.opened.SessionID != 0 {
			// A server may give a session only to a connection that shows the identities which the session has shown.
			for _, call := range append(r.reading.shown[c.opened.SessionID], Call{Verb: "close"}) {
				if c.nc != nil {
					c.step([]Call{call})
				}
			}
		}
		c.drop()
	}
	return r.p.clean("/")
}

// Leave hangs up and leaves the sessions of the case, and all it has made, as they are.
func (r *Round) Leave() {
	for _, c := range r.order {
		c.drop()
	}
}

// Move goes on with the case on another server, which has what the last one had. Connections have
// to resume their sessions there.
func (r *Round) Move(p *Player) {
	r.Leave()
	r.p, r.reading.since = p, r.p.since
	for _, c := range r.order {
		c.addr = p.addr
	}
}

// clean deletes all that is below a path, but for what belongs to the server.
func (p *Player) clean(path string) error {
	_, d, err := p.control.ask("getChildren", path)
	if err != nil {
		return err
	}
	for _, name := range d.Strings() {
		child := zk.Join(path, name)
		if child == "/zookeeper" {
			continue
		}
		if err := p.clean(child); err != nil {
			return err
		}
		if _, _, err := p.control.ask("delete", child, "-1"); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// Step plays one step and returns what came back, a line for each frame. The error is that of a
// step that cannot be played, or of a server that owes an answer.
func (r *Round) Step(s *Step) (string, error) {
	c, ok := r.conns[s.Conn]
	if verb := s.Calls[0].Verb; verb == "connect" || verb == "dial" {
		if c == nil {
			c = &conn{addr: r.p.addr, name: s.Conn, reading: r.reading}
			r.conns[s.Conn] = c
			r.order = append(r.order, c)
		}
		c.drop()
		if verb == "dial" {
			return "", c.dial()
		}
		c.xid = 0
		early, err := c.frames(s.Calls[1:])
		if err != nil {
			return "", err
		}
		said := c.connect(&s.Calls[0], r.conns, early...)
		if c.nc == nil || len(early) == 0 {
			return said, nil
		}
		answers, err := c.receive(s.Calls[1:])
		return said + "\n" + answers, err
	}
	if !ok || c.nc == nil {
		return "", fmt.Errorf("%s is not connected", s.Conn)
	}
	c.nc.SetDeadline(time.Now().Add(answerTimeout))
	return c.step(s.Calls)
}

// A conn is one connection.
type conn struct {
	name    string
	addr    string
	reading *reading
	nc      net.Conn // nil while there is none
	xid     int32
	opened  wire.ConnectResponse
}

func (c *conn) drop() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

func (c *conn) dial() error {
	nc, err := net.DialTimeout("tcp", c.addr, answerTimeout)
	if err != nil {
		return err
	}
	nc.SetDeadline(time.Now().Add(answerTimeout))
	c.nc, c.xid = nc, 0
	return nil
}

// connect opens a connection and asks for a session: a new one, that of another connection
// (resume=), or one by its number (session=), with the newest zxid seen (zxid=), a timeout in
// milliseconds (timeout=), a password (password=null, empty or wrong) and the flag at the end
// (readOnly=none, 0 or 1). What is in early is sent right behind.
func (c *conn) connect(call *Call, conns map[string]*conn, early ...byte) string {
	if err := c.dial(); err != nil {
		return err.Error()
	}
	nc := c.nc
	q := wire.ConnectRequest{Timeout: int32(sessionTimeout.Milliseconds()), Password: make([]byte, 16), HasReadOnly: true}
	for _, arg := range call.Args {
		key, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.ParseInt(value, 0, 64)
		switch key {
		case "resume":
			q.SessionID, q.Password = conns[value].opened.SessionID, conns[value].opened.Password
		case "session":
			q.SessionID = n
		case "zxid":
			q.LastZxid = n
			if strings.HasPrefix(value, "+") {
				q.LastZxid += c.reading.base
			}
		case "timeout":
			q.Timeout = int32(n)
		case "version":
			q.ProtocolVersion = int32(n)
		case "password":
			q.Password = map[string][]byte{null: nil, "empty": {}, "wrong": []byte("wrongwrongwrongw"), "short": []byte("short")}[value]
		case "readOnly":
			q.HasReadOnly, q.ReadOnly = value != "none", value == "1"
		default:
			return "no such argument: " + arg
		}
	}
	b, start := wire.BeginFrame(nil)
	nc.Write(append(wire.EndFrame(q.AppendTo(b), start), early...)) // a server that has hung up is found out below
	frame, err := wire.ReadFrame(nc, nil, replyBytesMax)
	if err != nil {
		return c.over(err)
	}
	d := wire.NewDecoder(frame)
	a := wire.ConnectResponse{ProtocolVersion: d.Int32(), Timeout: d.Int32(), SessionID: d.Int64(), Password: append([]byte(nil), d.Buffer()...)}
	if _, known := c.reading.sessions[a.SessionID]; !known {
		c.reading.sessions[a.SessionID] = c.name
	}
	c.opened = a
	return fmt.Sprintf("connected: version %d, timeout %d, session %s, password of %d bytes, all zero: %t, then %x%s",
		a.ProtocolVersion, a.Timeout, c.reading.session(a.SessionID), len(a.Password), strings.Trim(string(a.Password), "\x00") == "",
		d.Rest(), errText(d.Err()))
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (cannot be read: %v)", err)
}

// over says how a connection ended. Whether the server hung up or reset the connection depends on
// what was still on the way; that it did either is what counts.
func (c *conn) over(err error) string {
	c.drop()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "silence"
	}
	return "closed"
}

// step carries out calls and returns what came back.
func (c *conn) step(calls []Call) (string, error) {
	switch first := &calls[0]; first.Verb {
	case "drop":
		c.drop()
		return "", nil
	case "eof":
		return c.receive(nil)
	case "receive":
		frame, err := wire.ReadFrame(c.nc, nil, replyBytesMax)
		if err != nil {
			return c.over(err), nil
		}
		text, _ := c.read(frame, nil)
		return text, nil
	case "raw":
		b, err := hex.DecodeString(strings.Join(first.Args, ""))
		if err != nil {
			return "", err
		}
		c.nc.Write(b) // if this fails, so does the next step
		return "", nil
	}
	for _, call := range calls {
		if call.Verb == "auth" && len(call.Args) == 2 && call.Args[0] == "digest" {
			c.reading.show(c.opened.SessionID, call)
		}
	}
	out, err := c.frames(calls)
	if err != nil {
		return "", err
	}
	c.nc.Write(out) // a server that has hung up is found out below
	return c.receive(calls)
}

// frames returns the frames of calls, one behind the other.
func (c *conn) frames(calls []Call) ([]byte, error) {
	var out []byte
	for i := range calls {
		c.xid++
		frame, _, err := encode(&calls[i], c.xid, c.reading.base)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", calls[i].Verb, err)
		}
		out = append(out, frame...)
	}
	return out, nil
}

// receive reads until all calls are answered or the server hangs up; without calls, the latter.
func (c *conn) receive(calls []Call) (string, error) {
	var lines []string
	for forever := len(calls) == 0; forever || len(calls) > 0; {
		frame, err := wire.ReadFrame(c.nc, nil, replyBytesMax)
		if err != nil {
			lines = append(lines, c.over(err))
			break
		}
		var call *Call
		if len(calls) > 0 {
			call = &calls[0]
		}
		text, answered := c.read(frame, call)
		lines = append(lines, text)
		if !answered {
			continue
		}
		calls = calls[1:]
		if call.Verb == "close" && len(calls) == 0 {
			text, err := c.receive(nil)
			return strings.Join(append(lines, text), "\n"), err
		}
	}
	return strings.Join(lines, "\n"), nil
}

// read writes down one frame, and says whether it answers the call.
func (c *conn) read(frame []byte, call *Call) (text string, answered bool) {
	d := wire.NewDecoder(frame)
	var h wire.ReplyHeader
	h.DecodeFrom(d)
	switch {
	case d.Err() != nil:
		return "frame " + hex.EncodeToString(frame), false
	case h.Xid == wire.XidEvent:
		return c.reading.event(h, d), false
	case call == nil:
		return fmt.Sprintf("answer to nothing: xid %d error %d", h.Xid, h.Err), false
	}
	return c.reading.answer(call, h, d), true
}

// ask carries out one request of the control connection, which must succeed.
func (c *conn) ask(verb string, args ...string) (wire.ReplyHeader, *wire.Decoder, error) {
	var h wire.ReplyHeader
	call := Call{Verb: verb, Args: args}
	if c.nc == nil {
		return h, nil, errors.New("control connection is lost")
	}
	c.nc.SetDeadline(time.Now().Add(answerTimeout))
	c.xid++
	frame, _, err := encode(&call, c.xid, 0)
	if err != nil {
		return h, nil, err
	}
	if _, err := c.nc.Write(frame); err != nil {
		return h, nil, err
	}
	if frame, err = wire.ReadFrame(c.nc, nil, replyBytesMax); err != nil {
		return h, nil, err
	}
	d := wire.NewDecoder(frame)
	h.DecodeFrom(d)
	if h.Err != zk.OK {
		return h, nil, fmt.Errorf("%s %q: %w", verb, args, h.Err)
	}
	return h, d, d.Err()
}
