package election

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestCandidateSays(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		want Candidate
	}{
		{Options{ID: "a:80", Data: []byte{0, 0xff}, Lock: lock.Options{Label: "api"}}, Candidate{ID: "a:80", Data: []byte{0, 0xff}}},
		{Options{}, Candidate{}},
		{Options{ID: "a:80", IDOnly: true, Lock: lock.Options{Label: "api"}}, Candidate{ID: "a:80"}},
	} {
		opt, err := c.opt.withDefaults(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		data := opt.Lock.Data
		got := candidateOf(lock.Contender{Data: data})
		if got.ID != c.want.ID || string(got.Data) != string(c.want.Data) {
			t.Errorf("%s is read as %+v, want %+v", data, got, c.want)
		}
		if owner := got.Owner; c.opt.IDOnly {
			if string(data) != c.opt.ID || owner != (lock.Owner{}) {
				t.Errorf("IDOnly says %q, read as %+v", data, got)
			}
		} else if owner.PID != os.Getpid() || owner.Label != c.opt.Lock.Label {
			t.Errorf("%s is read as owner %+v", data, owner)
		}
		var owner lock.Owner // as a list of locks reads it
		if err := json.Unmarshal(data, &owner); !c.opt.IDOnly && (err != nil || owner != got.Owner) {
			t.Errorf("%s as an owner is %+v, %v, want %+v", data, owner, err, got.Owner)
		}
	}
}

// What Curator's candidates say is their id, whatever it looks like.
func TestForeignCandidates(t *testing.T) {
	for _, text := range []string{"", "10.0.0.1:80", `{"host":"a","port":80}`, `{`, "null", "\xff", `{"id":"x"}`} {
		c := candidateOf(lock.Contender{Data: []byte(text)})
		if c.ID != text || c.Owner != (lock.Owner{}) || c.Data != nil {
			t.Errorf("%q is read as %+v", text, c)
		}
	}
}

func TestOptions(t *testing.T) {
	const timeout = 9 * time.Second
	for _, c := range []struct {
		opt  Options
		want string // in the error
	}{
		{Options{Grace: -1}, "Grace"},
		{Options{Margin: 3*time.Second + 1}, "third"},
		{Options{Lock: lock.Options{Data: []byte("x")}}, "Lock.Data"},
		{Options{IDOnly: true, Data: []byte("x")}, "IDOnly"},
		{Options{Data: make([]byte, dataBytesMax)}, "bytes"},
		{Options{ID: strings.Repeat("x", dataBytesMax+1), IDOnly: true}, "bytes"},
	} {
		if _, err := c.opt.withDefaults(timeout); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60v: error %v, want one about %s", c.opt, err, c.want)
		}
	}
	for _, c := range []struct{ given, want, shorter time.Duration }{{0, timeout / 6, timeout / 18}, {-1, 0, 0}, {timeout / 3, timeout / 3, timeout / 9}} {
		opt, err := Options{Margin: c.given}.withDefaults(timeout)
		if err != nil || opt.Grace != 5*time.Second || !opt.Lock.Requeue {
			t.Errorf("margin %v: %+v, %v", c.given, opt, err)
		}
		if now, then := opt.margin(timeout), opt.margin(timeout/3); now != c.want || then != c.shorter {
			t.Errorf("margin %v: %v, and %v once a reconnect has cut the timeout to a third, want %v and %v", c.given, now, then, c.want, c.shorter)
		}
	}
	if _, err := (Options{ID: strings.Repeat("x", dataBytesMax), IDOnly: true}).withDefaults(timeout); err != nil {
		t.Errorf("an id of %d bytes: %v", dataBytesMax, err)
	}
}

// An option that is refused is named with the election.
func TestARefusedOptionNamesTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		for option, opt := range map[string]Options{
			"Grace":         {Grace: -1},
			"Lock.Data":     {Lock: lock.Options{Data: []byte("x")}},
			"Lock.Deadlock": {Lock: lock.Options{Deadlock: time.Minute}},
		} {
			if _, err := New(s, "/e", opt); err == nil || !strings.HasPrefix(err.Error(), "election /e: option "+option+": ") {
				t.Errorf("option %s: error %v", option, err)
			}
		}
	})
}
