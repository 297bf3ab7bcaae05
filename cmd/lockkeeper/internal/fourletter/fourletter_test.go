package fourletter

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const leader = `Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2024-12-29 17:54 UTC
Latency min/avg/max: 0/2.0517/15
Received: 7
Sent: 6
Connections: 2
Outstanding: 1
Zxid: 0x100000002
Mode: leader
Node count: 6
Proposal sizes last/min/max: -1/-1/-1
`

func TestParse(t *testing.T) {
	got, err := parse(leader)
	want := Status{"3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f", "leader", 0, 2.0517, 15, 2, 1, 6, "0x100000002", 7}
	if err != nil || got != want {
		t.Errorf("parse = %+v, %v; want %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"": "hung up",
		"This ZooKeeper instance is not currently serving requests\n": "not currently serving",
		"srvr is not executed because it is not in the whitelist.\n":  "4lw.commands.whitelist",
		"HTTP/1.1 400 Bad Request\n":                                  "HTTP/1.1 400",
		"Mode: leader\nConnections: many\n":                           "many",
		"Latency min/avg/max: 0/NaN/15\n":                             "NaN",
		"Latency min/avg/max: 0/1/+Inf\n":                             "Inf",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse(%q) = %v, want an error with %q", text, err, want)
		}
	}
}

func TestAsk(t *testing.T) {
	dial := (&net.Dialer{}).DialContext
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan string)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for answer := range answers {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			if answer == "" {
				t.Cleanup(func() { c.Close() }) // silent until the end of the test
				continue
			}
			word := make([]byte, 4)
			c.Read(word)
			if string(word) == "srvr" {
				c.Write([]byte(answer))
			}
			c.Close()
		}
	}()
	answers <- leader
	if s, err := Ask(context.Background(), dial, "unix", path); err != nil || s.Mode != "leader" {
		t.Errorf("Ask = %+v, %v", s, err)
	}
	answers <- ""
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	dialed := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("no answer in time")) })
		return c, err
	}
	if _, err := Ask(ctx, dialed, "unix", path); err == nil || err.Error() != path+": connected: no answer in time" { // no word of TLS
		t.Errorf("Ask of a silent server = %v", err)
	}
	close(answers)
	<-served
	l.Close()
	if _, err := Ask(context.Background(), dial, "unix", path); err == nil {
		t.Error("Ask without a server: no error")
	}
}

// The end of the context is the reason also if it comes while a connection is made, or in the write.
func TestAskSaysWhyItsContextHasEnded(t *testing.T) {
	t.Parallel()
	for want, dialed := range map[string]error{
		"a:1: no answer in time": errors.New("i/o timeout"),
		"a:1: connected: no answer in time (does this port want TLS?)": nil,
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		dial := func(context.Context, string, string) (net.Conn, error) {
			cancel(errors.New("no answer in time"))
			c, silent := net.Pipe()
			t.Cleanup(func() { silent.Close() })
			return c, dialed
		}
		if _, err := Ask(ctx, dial, "tcp", "a:1"); err == nil || err.Error() != want {
			t.Errorf("Ask = %v, want %s", err, want)
		}
	}
}
