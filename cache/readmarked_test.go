package cache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A busySource has an event each time it is looked at, and no znode. In the last round its connection is lost, and the next one's gap
// is marked.
type busySource struct {
	source
	f     *follower
	link  *zktest.Link
	looks int
}

func (b *busySource) read(context.Context, []string, reader) error { return nil }

func (b *busySource) forget(string) {}

func (b *busySource) drain() {
	b.looks++
	b.f.mark("/x", false)
	if b.looks != readRoundsMax {
		return
	}
	before, _ := b.f.s.State()
	b.link.Cut()
	for now := before; now.Conn == before.Conn || now.Phase != client.Connected; now, _ = b.f.s.State() {
		time.Sleep(time.Millisecond)
	}
	b.f.mark("", true)
}

// What is published after a reconnect in the last of many rounds is not known to be of the new connection, so it is read again: the
// state would say for ever that there is no connection.
func TestAReconnectInTheLastRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := zktest.New(t, zktest.Options{}).Link("k")
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: link.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close(context.Background())
		c, err := Open(t.Context(), k, "/x", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		s, err := k.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := &follower{c: c, s: s, wake: make(chan struct{}, 1)}
		f.mu.paths = map[string]bool{}
		src := &busySource{f: f, link: link}
		f.src = src
		if err := f.readMarked(t.Context()); err != nil {
			t.Fatal(err)
		}
		if src.looks != readRoundsMax {
			t.Fatalf("%d rounds, want %d", src.looks, readRoundsMax)
		}
		if _, gap := f.take(); !gap {
			t.Error("what was read on two connections counts as read on the new one")
		}
	})
}
