package link

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("LINK_TEST_STORE") != "" {
		c, err := OpenCell(os.NewFile(3, "cell"))
		if err != nil {
			panic(err)
		}
		c.Store(c.Load() + 1)
		return
	}
	os.Exit(m.Run())
}

func TestMessagesArriveAsTheyWereSent(t *testing.T) {
	var pipe bytes.Buffer
	sent := []Note{{Is: IsWaiting, Ahead: 2, Holder: "line\nbreak"}, {Is: IsGranted, Token: 1 << 62, Timeout: time.Second}}
	w := NewWriter(&pipe)
	for _, n := range sent {
		if err := w.Send(n); err != nil {
			t.Fatal(err)
		}
	}
	var got []Note
	if err := Receive(&pipe, func(n Note) { got = append(got, n) }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("received %+v, want %+v", got, sent)
	}
}

func TestMessagesHaveALimit(t *testing.T) {
	if err := NewWriter(&bytes.Buffer{}).Send(Note{Text: strings.Repeat("x", lineBytesMax)}); err == nil {
		t.Error("Send took a message beyond the limit")
	}
	if err := NewWriter(&bytes.Buffer{}).Send(Order{Do: strings.Repeat("x", orderBytesMax)}); err == nil {
		t.Error("Send took an order beyond the limit")
	}
	long := strings.NewReader(strings.Repeat("x", lineBytesMax+1))
	if err := Receive(long, func(Note) {}); err == nil {
		t.Error("Receive took a line beyond the limit")
	}
	if err := Receive(strings.NewReader("nonsense\n"), func(Note) {}); err == nil {
		t.Error("Receive took a line that is no message")
	}
}

func TestCellIsSharedWithAnotherProcess(t *testing.T) {
	c, err := NewCell()
	if err != nil {
		t.Fatal(err)
	}
	if now := Now(); c.Load() > now {
		t.Errorf("a new cell holds %d, which is after now (%d)", c.Load(), now)
	}
	c.Store(41)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LINK_TEST_STORE=1")
	cmd.ExtraFiles = []*os.File{c.File()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := c.Load(); got != 42 {
		t.Errorf("after the other process added one: %d, want 42", got)
	}
}

func TestAlarmRingsAtItsTimeAndCanBeMoved(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	early, late := Now().Add(500*time.Millisecond), Now().Add(600*time.Millisecond) // moved before it rings, on a busy machine too
	a.Set(early)
	a.Set(late)
	<-a.C
	if now := Now(); now < late {
		t.Errorf("rang %v early", time.Duration(late-now))
	}
	a.Set(Now().Add(-time.Hour)) // a moment that has passed rings at once
	<-a.C
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		timeout, grace time.Duration
		want           Plan
		refused        bool
	}{
		{30 * time.Second, GraceAuto, Plan{5 * time.Second, time.Second}, false},
		{30 * time.Second, 9 * time.Second, Plan{9 * time.Second, time.Second}, false},
		{30 * time.Second, 9*time.Second + 1, Plan{}, true},
		{30 * time.Second, 0, Plan{0, time.Second}, false},
		{6 * time.Second, GraceAuto, Plan{1800 * time.Millisecond, 200 * time.Millisecond}, false},
		{300 * time.Millisecond, GraceAuto, Plan{80 * time.Millisecond, 20 * time.Millisecond}, false},
		{30 * time.Millisecond, GraceAuto, Plan{}, true}, // not even time to kill
	} {
		got, err := NewPlan(c.timeout, c.grace)
		if (err != nil) != c.refused || err == nil && got != c.want {
			t.Errorf("NewPlan(%v, %v) = %+v, %v; want %+v, refused %v", c.timeout, c.grace, got, err, c.want, c.refused)
		}
		if err != nil && !strings.Contains(err.Error(), c.timeout.String()) {
			t.Errorf("NewPlan(%v, %v): the error does not say the numbers: %v", c.timeout, c.grace, err)
		}
	}
}

func TestGuardFDs(t *testing.T) {
	want := GuardFDs{Task: 3, Events: 14, Cell: 5, Condemn: 92, Swept: 65}
	args := want.Args()
	if got, err := ParseGuardFDs(args[len(args)-1]); err != nil || got != want {
		t.Errorf("%q = %+v, %v; want %+v", args, got, err, want)
	}
	for _, bad := range []string{"", "x", "3,4,5,6", "3,4,5,6,7,8", "3,4,5,6,2", "3,4,5,6,7 "} {
		if f, err := ParseGuardFDs(bad); err == nil {
			t.Errorf("ParseGuardFDs(%q) = %+v without error", bad, f)
		}
	}
}

func TestATaskNeedNotBeText(t *testing.T) {
	var pipe bytes.Buffer
	sent := Task{Program: []byte("/bin/\xff"), Argv: [][]byte{{}, []byte("a\nb\x00"), {0xc3}}, Env: [][]byte{[]byte("A=\xfe")}, Foreground: true, Plan: Plan{1, 2}}
	if err := SendTask(&pipe, sent); err != nil {
		t.Fatal(err)
	}
	if got, err := ReceiveTask(&pipe); err != nil || !reflect.DeepEqual(got, sent) {
		t.Errorf("received %+v, %v; want %+v", got, err, sent)
	}
	if _, err := ReceiveTask(&pipe); err != io.EOF {
		t.Errorf("at the end: %v, want EOF", err)
	}
}
