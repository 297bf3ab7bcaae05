package notify

import (
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSend(t *testing.T) {
	dir, err := os.MkdirTemp("", "lk") // short: a socket is in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	names := []string{dir + "/s"}
	if runtime.GOOS == "linux" {
		names = append(names, "@lockkeeper-test-"+strconv.Itoa(os.Getpid()))
	}
	for _, name := range names {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close()
		t.Setenv("NOTIFY_SOCKET", name)
		for _, state := range []string{Ready, Stopping} {
			if err := Send(state); err != nil {
				t.Errorf("Send(%s) to %s: %v", state, name, err)
			}
			b := make([]byte, 64)
			manager.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, err := manager.Read(b); err != nil || string(b[:n]) != state {
				t.Errorf("%s got %q, %v, want %q", name, b[:n], err, state)
			}
		}
	}
}

func TestSendToNobody(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Send(Ready); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	t.Setenv("NOTIFY_SOCKET", "/no/such/socket")
	if err := Send(Ready); err == nil || !strings.Contains(err.Error(), "/no/such/socket") {
		t.Errorf("with a manager that is gone: %v", err)
	}
}
