package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A command that has found a server, and loses it before it is done, does not wait for ever. A short break is nothing
// to it.
func TestACommandWithoutAServerEnds(t *testing.T) {
	for name, lose := range map[string]func(*zktest.Link){"refused": (*zktest.Link).Refuse, "silent": (*zktest.Link).Freeze} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				s := srv.Session(t, "command")
				ctx, stop := whileServed(t.Context(), s, connectTimeoutDefault)
				defer stop()
				link := srv.Link("command")
				lose(link)
				time.Sleep(connectTimeoutDefault / 2)
				link.Heal()
				time.Sleep(2 * connectTimeoutDefault)
				if ctx.Err() != nil {
					t.Fatalf("ended by a break: %v", context.Cause(ctx))
				}
				lose(link)
				// A silent one is noticed when two thirds of the session timeout are over.
				time.Sleep(s.Timeout() + connectTimeoutDefault + time.Second)
				if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "no server for 10s") ||
					name == "silent" && !strings.Contains(cause.Error(), "since then 127.0.0.1:1: no answer within") {
					t.Errorf("without a server: %v", cause)
				}
			})
		})
	}
}

// A session that owns nothing is not said goodbye to for long: it was five seconds after Ctrl-C.
func TestACommandThatOwnsNothingEndsSoonWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	h.run("run", "--servers", address, "demo", "--", "true").want(0)
	watch := h.start("locks", "--watch", "--servers", address, "demo")
	watch.see("free")
	server.signal(syscall.SIGSTOP)
	defer server.signal(syscall.SIGCONT)
	began := time.Now()
	watch.signal(syscall.SIGINT)
	watch.wantInterrupted()
	if took := time.Since(began); took > 4500*time.Millisecond {
		t.Errorf("locks --watch ends %v after INT", took)
	}
}

// muteServer returns the address of a server that gives sessions with this timeout, and answers nothing else. One whose disk hangs
// may take sessions up again like that.
func muteServer(t *testing.T, timeout time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				nc.Read(make([]byte, 1000)) // the request for a session
				welcome := binary.BigEndian.AppendUint32(nil, 36)
				welcome = binary.BigEndian.AppendUint32(welcome, 0) // the version of the protocol
				welcome = binary.BigEndian.AppendUint32(welcome, uint32(timeout/time.Millisecond))
				welcome = binary.BigEndian.AppendUint64(welcome, 1) // the session, and then its password
				nc.Write(append(binary.BigEndian.AppendUint32(welcome, 16), make([]byte, 16)...))
				io.Copy(io.Discard, nc)
			}()
		}
	}()
	return l.Addr().String()
}

func TestACommandWithAServerThatAnswersNothingEnds(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	s, err := client.Open(t.Context(), muteServer(t, timeout), client.Options{SessionTimeout: timeout, BackoffMax: timeout / 3})
	if err != nil {
		t.Fatal(err)
	}
	closing, cancel := context.WithCancel(context.Background())
	cancel() // no answer is to be waited for
	defer s.Close(closing)
	ctx, stop := whileServed(t.Context(), s, 5*timeout)
	defer stop()
	waiting, cancel := context.WithTimeout(ctx, 40*timeout)
	defer cancel()
	_, _, err = s.Exists(waiting, "/")
	if err == nil || !strings.Contains(err.Error(), "no server for 1.5s: nothing heard from") {
		t.Errorf("without an answer: %v", err)
	}
}
