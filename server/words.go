package server

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// words are the four-letter words: what an operator types instead of a connect request. Each
// writes its whole answer, in the shape that ZooKeeper gives it, for the sake of the programs that
// take it apart.
var words = map[string]func(*Server, *strings.Builder){
	"conf": (*Server).wordConf,
	"cons": (*Server).wordCons,
	"crst": (*Server).wordCrst,
	"dirs": (*Server).wordDirs,
	"dump": (*Server).wordDump,
	"envi": (*Server).wordEnvi,
	"hash": (*Server).wordHash,
	"isro": func(_ *Server, b *strings.Builder) { b.WriteString("rw") },
	"mntr": (*Server).wordMntr,
	"ruok": func(_ *Server, b *strings.Builder) { b.WriteString("imok") },
	"srst": (*Server).wordSrst,
	"srvr": (*Server).wordSrvr,
	"stat": (*Server).wordStat,
	"wchc": (*Server).wordWchc,
	"wchp": (*Server).wordWchp,
	"wchs": (*Server).wordWchs,
}

// answerWord answers a four-letter word and reports whether it was one. It counts as a request.
func (c *conn) answerWord(word string) bool {
	write, ok := words[word]
	if !ok {
		return false
	}
	c.asking.Store(true)
	c.s.counters.received.Add(1)
	c.counters.received.Add(1)
	if !c.s.allowsWord(word) {
		write = func(_ *Server, b *strings.Builder) {
			fmt.Fprintf(b, "%s is not executed because it is not in the whitelist.\n", word)
		}
	}
	answer, bytes, ok := c.makeAnswer(write)
	if !ok {
		return true
	}
	io.WriteString(c.nc, answer) // which may take as long as a handshake; what is left to c.out only as long as its farewell
	c.s.answers.add(-bytes)
	c.s.counters.sent.Add(1)
	return true
}

// makeAnswer makes the answer to a word, and reserves its bytes in the budget of answers if it is large. One is made at a time, so that no
// more than one is not in the budget. It reports false, and reserves nothing, if that takes longer than a handshake may.
func (c *conn) makeAnswer(write func(*Server, *strings.Builder)) (answer string, reserved int64, ok bool) {
	s := c.s
	limit := s.now() + s.opts.HandshakeTimeout
	select {
	case s.wordTurn <- struct{}{}:
	case <-time.After(s.opts.HandshakeTimeout):
		return "", 0, false
	}
	defer func() { <-s.wordTurn }()
	var b strings.Builder
	write(s, &b)
	if b.Len() <= largeAnswerBytes {
		return b.String(), 0, true
	}
	ok = s.answers.reserve(int64(b.Len()), s.cutGreediest, func() bool { return s.now() > limit })
	return b.String(), int64(b.Len()), ok
}

func (s *Server) allowsWord(word string) bool {
	return word == "srvr" || slices.Contains(s.opts.Words, word) || slices.Contains(s.opts.Words, "*")
}

func (s *Server) wordSrvr(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\n", VersionText())
	s.writeState(b)
}

func (s *Server) wordStat(b *strings.Builder) {
	fmt.Fprintf(b, "Zookeeper version: %s\nClients:\n", VersionText())
	for _, c := range s.Connections() {
		writeConnection(b, &c)
		b.WriteString(")\n")
	}
	b.WriteByte('\n')
	s.writeState(b)
}

func (s *Server) writeState(b *strings.Builder) {
	st := s.Stats()
	fmt.Fprintf(b, "Latency min/avg/max: %d/%s/%d\n", st.Latency.Min, javaDouble(st.Latency.Mean), st.Latency.Max)
	fmt.Fprintf(b, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\nZxid: %s\nMode: standalone\nNode count: %d\n",
		st.Received, st.Sent, st.Connections, st.Outstanding, zxidText(st.Zxid), st.Znodes)
}

// javaDouble writes a number as Java would: never without a decimal point.
func javaDouble(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (s *Server) wordSrst(b *strings.Builder) {
	s.ResetStats()
	b.WriteString("Server stats reset.\n")
}

func (s *Server) wordConf(b *strings.Builder) {
	o := &s.opts
	plain, secure := s.Ports()
	data, log := s.DirBytes()
	fmt.Fprintf(b, "clientPort=%d\nsecureClientPort=%d\n", plain, secure)
	fmt.Fprintf(b, "dataDir=%s\ndataDirSize=%d\n", oneLine(o.DataFolder()), data)
	fmt.Fprintf(b, "dataLogDir=%s\ndataLogSize=%d\n", oneLine(o.LogFolder()), log)
	fmt.Fprintf(b, "tickTime=%d\nmaxClientCnxns=%d\nminSessionTimeout=%d\nmaxSessionTimeout=%d\nclientPortListenBacklog=-1\nserverId=0\n",
		o.TickTime.Milliseconds(), max(o.ConnectionsPerAddressMax, 0), o.MinSessionTimeout.Milliseconds(), o.MaxSessionTimeout.Milliseconds())
}

func (s *Server) wordDirs(b *strings.Builder) {
	data, log := s.DirBytes()
	fmt.Fprintf(b, "datadir_size: %d\nlogdir_size: %d\n", data, log)
}

func (s *Server) wordEnvi(b *strings.Builder) {
	b.WriteString("Environment:\n")
	for _, f := range Environment() {
		fmt.Fprintf(b, "%s=%s\n", f.Name, oneLine(f.Value.(string)))
	}
}

func (s *Server) wordHash(b *strings.Builder) {
	for _, d := range s.Digests() {
		fmt.Fprintf(b, "%x: %d\n", d.Zxid, int64(d.Tree))
	}
}

// wordDump writes the sessions and the connections by the time at which they expire, and the
// ephemerals.
func (s *Server) wordDump(b *strings.Builder) {
	expiry, conns := s.Sessions(), s.Connections()
	sessions := make(map[time.Duration][]string)
	for _, id := range slices.Sorted(maps.Keys(expiry)) {
		sessions[expiry[id]] = append(sessions[expiry[id]], sessionID(id))
	}
	b.WriteString("SessionTracker dump:\n")
	s.writeSets(b, "Session", sessions)

	ephemerals := s.Ephemerals()
	fmt.Fprintf(b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(ephemerals))
	for _, id := range slices.Sorted(maps.Keys(ephemerals)) {
		fmt.Fprintf(b, "%s:\n", sessionID(id))
		for _, path := range ephemerals[id] {
			fmt.Fprintf(b, "\t%s\n", path)
		}
	}

	ends := make(map[time.Duration][]string)
	for _, c := range conns {
		at, ok := expiry[c.Session]
		if !ok { // it has no session yet, or none any more
			at = c.Opened.Add(s.opts.HandshakeTimeout).Sub(s.started)
		}
		ends[at] = append(ends[at], fmt.Sprintf("ip: /%v sessionId: %s", c.Remote, sessionID(c.Session)))
	}
	b.WriteString("Connections dump:\n")
	s.writeSets(b, "Connections", ends)
}

// writeSets writes what expires when.
func (s *Server) writeSets(b *strings.Builder, what string, sets map[time.Duration][]string) {
	n := 0
	for _, set := range sets {
		n += len(set)
	}
	fmt.Fprintf(b, "%s Sets (%d)/(%d):\n", what, len(sets), n)
	for _, at := range slices.Sorted(maps.Keys(sets)) {
		fmt.Fprintf(b, "%d expire at %s:\n", len(sets[at]), s.started.Add(at).Format("Mon Jan 02 15:04:05 MST 2006"))
		for _, line := range sets[at] {
			fmt.Fprintf(b, "\t%s\n", line)
		}
	}
}
