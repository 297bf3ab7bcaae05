package zkcli

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An oldConn leads to a server that cannot register persistent watches again: the request, number 105, arrives with a number that no
// server knows.
type oldConn struct{ net.Conn }

func (c oldConn) Write(b []byte) (int, error) {
	return c.Conn.Write(bytes.Replace(b, []byte("\xff\xff\xff\xf8\x00\x00\x00\x69"), []byte("\xff\xff\xff\xf8\x00\x00\x10\x92"), 1))
}

// A watch that ends because the session has moved to a server without persistent watches says so, and is there no more.
func TestAPersistentWatchThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := zktest.New(t, zktest.Options{}).Link("c")
		var said strings.Builder
		c := &CLI{Out: io.Discard, Err: &said, Open: func(ctx context.Context, servers string) (*client.Session, error) {
			return client.Open(ctx, servers, client.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				nc, err := link.Dial(ctx, network, address)
				return oldConn{nc}, err
			}})
		}}
		if err := c.Connect(t.Context(), zktest.Servers); err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		c.Line(t.Context(), "addWatch /n")
		link.Cut()
		time.Sleep(time.Minute)
		c.Line(t.Context(), "removewatches /n")
		if got, want := said.String(), "KeeperErrorCode = Unimplemented for /n\nKeeperErrorCode = No such watcher for /n\n"; !strings.HasSuffix(got, want) {
			t.Errorf("said %q, want %q", got, want)
		}
	})
}
