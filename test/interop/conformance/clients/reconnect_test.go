package clients

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
)

// Clients of other makes show their identities again when they come back, so that our server gives them their session,
// which it keeps from a client that shows none.

//go:embed testdata/kazoo_reconnect.py
var kazooReconnect string

func TestKazooComesBackWithItsIdentities(t *testing.T) {
	said := sameOnBoth(t, replacer(), func(addr string) (string, error) {
		return interrupted(t, addr, func(addr string) []string { return []string{"/usr/bin/python3", "-c", kazooReconnect, addr} })
	})
	mustSay(t, said, "kazoo b'data' True True")
}

//go:embed testdata/CuratorReconnect.java
var curatorReconnect []byte

func TestCuratorComesBackWithItsIdentities(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "CuratorReconnect.java")
	if err := os.WriteFile(src, curatorReconnect, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/usr/bin/javac", "-d", dir, "-cp", curatorJars, src).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("javac: %w\n%s", err, out))
	}
	said := sameOnBoth(t, replacer(), func(addr string) (string, error) {
		return interrupted(t, addr, func(addr string) []string {
			return []string{"/usr/bin/java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
				"-cp", dir + ":" + curatorJars, "CuratorReconnect", addr}
		})
	})
	mustSay(t, said, "curator data true true")
}

func TestGoZookeeperComesBackWithItsIdentities(t *testing.T) {
	said := sameOnBoth(t, replacer(), func(addr string) (string, error) {
		p, through, err := proxyTo(addr)
		if err != nil {
			return "", err
		}
		defer p.Close()
		c, err := dialGo(through)
		if err != nil {
			return "", err
		}
		defer c.Close()
		for _, credential := range []string{"bob:pw", "ops:pw"} {
			if err := untilConnected(func() error { return c.AddAuth("digest", []byte(credential)) }); err != nil {
				return "", err
			}
		}
		if _, err := c.Create("/go", []byte("data"), zk.FlagEphemeral, zk.AuthACL(zk.PermAll)); err != nil {
			return "", err
		}
		session := c.SessionID()
		p.CutAll()
		var data []byte
		var stat *zk.Stat
		err = untilConnected(func() (err error) {
			data, stat, err = c.Get("/go")
			return err
		})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("go %s %t %t", data, stat.EphemeralOwner == session, c.SessionID() == session), nil
	})
	mustSay(t, said, "go data true true")
}

// untilConnected asks again while the client has no connection. It gives up what waits for one each time that no server has taken
// it, and a server that has just started may refuse it once.
func untilConnected(ask func() error) error {
	for deadline := time.Now().Add(answerTimeout); ; time.Sleep(10 * time.Millisecond) {
		err := ask()
		if err != zk.ErrConnectionClosed && err != zk.ErrNoServer || time.Now().After(deadline) {
			return err
		}
	}
}

// proxyTo starts a proxy to a server and returns its address.
func proxyTo(addr string) (p *faultproxy.Proxy, through string, err error) {
	p = faultproxy.New(new(net.Dialer).DialContext)
	if through, err = p.Listen("tcp", addr); err != nil {
		p.Close()
		return nil, "", err
	}
	return p, through, nil
}

// interrupted runs a command that connects to the address that it is given. When the command says that it is ready, its
// connections are cut, and it gets a line to go on. What it says behind that is returned.
func interrupted(t *testing.T, addr string, command func(addr string) []string) (string, error) {
	p, through, err := proxyTo(addr)
	if err != nil {
		return "", err
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	args := command(through)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	said := &awaited{text: "ready", found: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = said, said
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		return "", err
	}
	select {
	case <-said.found:
		p.CutAll()
		_, err = io.WriteString(in, "go on\n")
	case <-time.After(answerTimeout):
		err = fmt.Errorf("it is never ready")
		cancel()
	}
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	return said.b.String(), err
}
