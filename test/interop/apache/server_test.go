package apache

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestServer(t *testing.T) {
	begin := time.Now()
	s := Start(t, Options{})
	t.Logf("serves after %v", time.Since(begin))
	if mode, err := s.Mode(); mode != "standalone" || err != nil {
		t.Fatalf("Mode() = %q, %v; want standalone", mode, err)
	}

	s.Freeze()
	if out, err := s.FourLetter("ruok"); err == nil {
		t.Errorf("a frozen server answers %q", out)
	}
	s.Thaw()
	if out, err := s.FourLetter("ruok"); out != "imok" || err != nil {
		t.Errorf("ruok after the thaw: %q, %v; want imok", out, err)
	}

	begin = time.Now()
	s.Restart()
	t.Logf("serves again after %v", time.Since(begin))
	s.Kill()
	if _, err := s.Mode(); err == nil {
		t.Error("a killed server answers")
	}
}

// A port that another process has is noticed soon, whichever of the three it is.
func TestPortConflictIsNoticed(t *testing.T) {
	for port := range portsEach {
		ports, err := proc.FreePorts(portsEach * 3)
		if err != nil {
			t.Fatal(err)
		}
		var taken []net.Listener
		for s := range 3 { // any of the three may be elected to lead, and bind the second port
			ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports[portsEach*s+port]))
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, ln)
		}
		servers, err := tryStart(t, ports, Options{})
		if !errors.Is(err, errPortTaken) {
			t.Errorf("port %d: %v, want %v", port, err, errPortTaken)
		}
		for _, s := range servers {
			s.Kill()
			s.close()
		}
		for _, ln := range taken {
			ln.Close()
		}
	}
}

func TestEnsemble(t *testing.T) {
	begin := time.Now()
	e := StartEnsemble(t, 3, Options{})
	t.Logf("three servers serve after %v", time.Since(begin))
	old := e.Leader()
	e.Followers()
	begin = time.Now()
	old.Kill()
	if leader := e.Leader(); leader == old {
		t.Errorf("server %d still leads", leader.ID())
	}
	t.Logf("another leader after %v", time.Since(begin))
	old.Launch()
	old.AwaitServing()
	if mode, _ := old.Mode(); mode != "follower" {
		t.Errorf("the old leader came back as %q, want follower", mode)
	}
}
