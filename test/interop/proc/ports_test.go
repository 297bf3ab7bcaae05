package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

const portVariable = "PORT_TO_CLAIM"

func TestMain(m *testing.M) {
	if text := os.Getenv(portVariable); text != "" {
		port, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		ok, err := proc.Claim(port)
		fmt.Println(ok, err)
		return
	}
	os.Exit(m.Run())
}

// TestAClaimedPortIsClaimedByOneProcess: nothing listens on it, as while a server is started again.
func TestAClaimedPortIsClaimedByOneProcess(t *testing.T) {
	ports, err := proc.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		if ok, err := proc.Claim(port); ok || err != nil {
			t.Errorf("this process claims port %d twice: %v, %v", port, ok, err)
		}
		if said := claimElsewhere(t, port); said != "false <nil>\n" {
			t.Errorf("another process claims port %d: %s", port, said)
		}
	}
	for free := proc.PortMax; ; free-- { // some port is free
		if said := claimElsewhere(t, free); said == "true <nil>\n" {
			break
		} else if free < proc.PortMax-1000 {
			t.Fatalf("no port can be claimed: %s", said)
		}
	}
}

func claimElsewhere(t *testing.T, port int) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(self)
	other.Env = append(os.Environ(), fmt.Sprint(portVariable, "=", port))
	out, err := other.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
