package server

import (
	"fmt"
	"strings"
)

// writeConnection begins a connection's line, with what all such lines have. The number in brackets
// is what ZooKeeper waits for on its socket: 1 is for the next request, 0 for nothing any more.
func writeConnection(b *strings.Builder, c *Connection) {
	waits := 1
	if c.Asking {
		waits = 0
	}
	fmt.Fprintf(b, " /%v[%d](queued=%d,recved=%d,sent=%d", c.Remote, waits, c.Outstanding, c.Received, c.Sent)
}

func (s *Server) wordCons(b *strings.Builder) {
	for _, c := range s.Connections() {
		writeConnection(b, &c)
		if c.Session != 0 {
			fmt.Fprintf(b, ",sid=%s,lop=%s,est=%d,to=%d", sessionID(c.Session), c.LastOp, c.Opened.UnixMilli(), c.Timeout.Milliseconds())
			if c.LastXid >= 0 {
				fmt.Fprintf(b, ",lcxid=0x%x", c.LastXid)
			}
			fmt.Fprintf(b, ",lzxid=%s,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d", zxidText(c.LastZxid),
				c.LastSent.Milliseconds(), c.LastTook.Milliseconds(), c.Latency.Min, int64(c.Latency.Mean), c.Latency.Max)
		}
		b.WriteString(")\n")
	}
	b.WriteByte('\n')
}

func (s *Server) wordCrst(b *strings.Builder) {
	s.ResetConnectionStats()
	b.WriteString("Connection stats reset.\n")
}
