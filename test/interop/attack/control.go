package attack

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// control is a process that echoes what it receives. It is asked at the victim's pace while the server is under attack:
// what an answer from it takes is what the machine alone makes a client wait.
type control struct{ nc net.Conn }

// controlVariable makes a process of this program the echo.
const controlVariable = "ATTACK_CONTROL"

// echo is the process of the control. It ends when its input ends.
func echo() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	nc, err := l.Accept()
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{nc}, nc) // through this program, as a server's answers go
	return err
}

func startControl(t *testing.T) *control {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), controlVariable+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	addr := make([]byte, 64)
	n, err := out.Read(addr)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", strings.TrimSpace(string(addr[:n])))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &control{nc: nc}
}

// watch asks at the victim's pace until ctx ends, which has a deadline.
func (c *control) watch(ctx context.Context) latencies {
	var l latencies
	b := make([]byte, 64)
	end, _ := ctx.Deadline()
	c.nc.SetDeadline(end.Add(ioTimeout))
	for due := time.Now(); ctx.Err() == nil; {
		if _, err := c.nc.Write(b); err != nil {
			l.failed++
			break
		}
		if _, err := io.ReadFull(c.nc, b); err != nil {
			l.failed++
			break
		}
		l.all = append(l.all, time.Since(due))
		due = due.Add(pace)
		time.Sleep(time.Until(due))
	}
	slices.Sort(l.all)
	return l
}
