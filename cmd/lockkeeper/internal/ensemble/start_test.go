package ensemble

import (
	"os/exec"
	"testing"
	"time"
)

// All members that ignore TERM are killed, and not only the first one.
func TestStopKillsAllThatDoNotEnd(t *testing.T) {
	t.Parallel()
	var all []*memberProcess
	for range 2 {
		one := &memberProcess{cmd: exec.Command("sh", "-c", "trap '' TERM; echo; exec sleep 1000"), ended: make(chan error, 1)}
		out, err := one.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		err = one.cmd.Start()
		if err != nil {
			t.Fatal(err)
		}
		_, err = out.Read(make([]byte, 1)) // TERM is ignored from now on
		if err != nil {
			t.Error(err)
		}
		go func() { one.ended <- one.cmd.Wait() }()
		all = append(all, one)
	}
	err := stop(all, 10*time.Millisecond)
	if err != nil {
		t.Error(err)
	}
	for _, one := range all {
		if one.cmd.ProcessState == nil {
			t.Error("a member was not waited for")
		}
	}
}
