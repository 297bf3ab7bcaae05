package server

import (
	"cmp"
	"crypto/tls"
	"maps"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A Connection is a client's connection at one moment. What is counted is counted since it was
// opened or since the last ResetConnectionStats.
type Connection struct {
	Remote      net.Addr
	Secure      bool // inside TLS
	Asking      bool // it asks a four-letter word
	Session     int64
	Timeout     time.Duration // granted
	Opened      time.Time
	Outstanding int   // requests not yet answered
	Received    int64 // requests
	Sent        int64 // answers and events
	Latency     Latency

	// The last answer, if LastOp is not "NA": LastOp is what cons calls its request.
	LastOp   string
	LastXid  int32         // -1 if there was none
	LastZxid int64         // -1 if there was none
	LastSent time.Duration // since the server was opened
	LastTook time.Duration
}

// Connections returns the connections in the order in which they were opened.
func (s *Server) Connections() []Connection {
	s.listing.Lock()
	defer s.listing.Unlock()
	s.conns.Lock()
	open := slices.Collect(maps.Values(s.conns.byID))
	s.conns.Unlock()
	slices.SortFunc(open, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	s.state.RLock() // for the sessions of the connections
	defer s.state.RUnlock()
	all := make([]Connection, 0, len(open))
	for _, c := range open {
		all = append(all, c.look())
	}
	return all
}

// look describes the connection; Server.state is locked.
func (c *conn) look() Connection {
	k := &c.counters
	_, secure := c.nc.(*tls.Conn)
	return Connection{
		Remote: c.nc.RemoteAddr(), Secure: secure, Asking: c.asking.Load(),
		Session: c.session, Timeout: c.timeout, Opened: c.opened,
		Outstanding: int(c.out.pending.Load()), Received: k.received.Load(), Sent: k.sent.Load(), Latency: k.latency(),
		LastOp: opShort(wire.Op(k.last.op.Load())), LastXid: k.last.xid.Load(), LastZxid: k.last.zxid.Load(),
		LastSent: time.Duration(k.last.at.Load()), LastTook: time.Duration(k.last.took.Load()),
	}
}

// ResetConnectionStats makes what is counted about each connection begin anew, as the word crst
// does.
func (s *Server) ResetConnectionStats() {
	s.conns.Lock()
	defer s.conns.Unlock()
	for _, c := range s.conns.byID {
		c.counters.reset()
	}
}

// Ports returns the TCP ports that the server listens on without TLS and with it, the lowest if
// there are several of a kind, and -1 if there is none.
func (s *Server) Ports() (plain, secure int) {
	plain, secure = -1, -1
	s.conns.Lock()
	defer s.conns.Unlock()
	for l := range s.conns.listeners {
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		port := &plain
		if reflect.TypeOf(l) == tlsListener {
			port = &secure
		}
		if *port < 0 || addr.Port < *port {
			*port = addr.Port
		}
	}
	return plain, secure
}

// tlsListener is what tls.Listen and tls.NewListener return; it has no name.
var tlsListener = reflect.TypeOf(tls.NewListener(nil, nil))

// opShort is the name of a request in the word cons.
func opShort(op wire.Op) string {
	if s, ok := opShorts[op]; ok {
		return s
	}
	return "NA"
}

var opShorts = map[wire.Op]string{
	wire.OpPing: "PING", wire.OpCreateSession: "SESS", wire.OpMulti: "MULT", wire.OpMultiRead: "MLTR",
	wire.OpCreate: "CREA", wire.OpCreate2: "CREA", wire.OpCreateContainer: "CREA", wire.OpCreateTTL: "CREA",
	wire.OpDelete: "DELE", wire.OpSetData: "SETD", wire.OpReconfig: "RECO", wire.OpSetACL: "SETA",
	wire.OpCloseSession: "CLOS", wire.OpSync: "SYNC", wire.OpExists: "EXIS", wire.OpGetData: "GETD",
	wire.OpSetWatches: "SETW", wire.OpSetWatches2: "STW2", wire.OpAddWatch: "ADDW", wire.OpGetACL: "GETA",
	wire.OpGetChildren: "GETC", wire.OpGetChildren2: "GETC", wire.OpAllChildrenCount: "GETACN",
	wire.OpCheckWatches: "CHKW", wire.OpRemoveWatches: "REMW", wire.OpWhoAmI: "HOMI", wire.OpGetEphemerals: "GETE",
}
