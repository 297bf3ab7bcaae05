package ensemble

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// talk answers four-letter words as a member would.
func talk(answers map[string]string) Dialer {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			word := make([]byte, 4)
			if _, err := io.ReadFull(theirs, word); err == nil {
				theirs.Write([]byte(answers[string(word)]))
			}
		}()
		return ours, nil
	}
}

// A member that is not what it should be is named, with what it is.
func TestMembersThatAreRefused(t *testing.T) {
	t.Parallel()
	p := &Plan{Content: Content{Zxid: 0x57, Znodes: 30, Ephemerals: 5, Passing: 2, Newest: "/a", NewestZxid: 0x50}}
	good := map[string]string{
		"srvr": "Zxid: 0x100000000\nMode: follower\nNode count: 31\n",
		"conf": "clientPort=1\nserverId=2\n",
		"mntr": "zk_znode_count\t31\nzk_ephemerals_count\t5\n",
	}
	for name, tt := range map[string]struct{ word, text, want string }{
		"stands alone":    {"srvr", "Zxid: 0x100000000\nMode: standalone\n", "its mode is standalone"},
		"same epoch":      {"srvr", "Zxid: 0x60\nMode: leader\n", "not behind that of the source"},
		"no zxid":         {"srvr", "Mode: leader\n", `its zxid is ""`},
		"no quorum":       {"srvr", "This ZooKeeper instance is not currently serving requests\n", "not currently serving"},
		"another member":  {"conf", "serverId=3\n", "it is member 3"},
		"silent":          {"mntr", "x is not executed because it is not in the whitelist.", "whitelist"},
		"no count":        {"mntr", "zk_znode_count\tmany\nzk_ephemerals_count\t5\n", `zk_znode_count is "many"`},
		"lacks data":      {"mntr", "zk_znode_count\t20\nzk_ephemerals_count\t0\n", "it has 19 znodes that are not ephemeral, and the source had 25"},
		"too much":        {"mntr", "zk_znode_count\t40\nzk_ephemerals_count\t5\n", "it has other data"},
		"more ephemerals": {"mntr", "zk_znode_count\t35\nzk_ephemerals_count\t9\n", "9 ephemeral znodes, and the source had 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]string{}
			for word, text := range good {
				answers[word] = text
			}
			answers[tt.word] = tt.text
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r := Report{ID: 2, Address: "a:1"}
			if err := p.ask(ctx, talk(answers), &r); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ask = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	p := &Plan{}
	report := func(modes ...string) (all []Report) {
		for i, m := range modes {
			all = append(all, Report{ID: i + 1, Mode: m, Zxid: "0x200000001"})
		}
		return all
	}
	if err := p.judge(report("follower", "leader", "follower")); err != nil {
		t.Error(err)
	}
	for want, all := range map[string][]Report{
		"0 of the members lead": report("follower", "follower"),
		"2 of the members lead": report("leader", "leader"),
		"different epochs":      append(report("follower", "leader"), Report{Mode: "follower", Zxid: "0x300000001"}),
		"member 9 (x): broken":  append(report("leader"), Report{ID: 9, Address: "x", Problem: "broken"}),
	} {
		if err := p.judge(all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("judge = %v, want %q", err, want)
		}
	}
}

// Members on this machine are looked at before they are started.
func TestHomesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, data string)
		words string
	}{
		"wrong myid": {func(t *testing.T, data string) {
			if err := os.WriteFile(filepath.Join(data, myidName), []byte("2\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "this is member 1"},
		"no myid": {func(t *testing.T, data string) { remove(t, filepath.Join(data, myidName)) }, "no such file"},
		"initialize": {func(t *testing.T, data string) {
			if err := os.WriteFile(filepath.Join(data, initializeName), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "must not begin without"},
		"no data":       {func(t *testing.T, data string) { remove(t, filepath.Join(data, versionName)) }, "member 1"},
		"a log is gone": {func(t *testing.T, data string) { remove(t, filepath.Join(data, versionName, "log.*")) }, "its data is not whole"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, FormatLocal, "127.0.0.1:1:2:3", "127.0.0.1:4:5:6", "127.0.0.1:7:8:9")
			p, err := Grow(t.Context(), s, filled(t, ""), silent)
			if err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, filepath.Join(s.Out, "member1", "data"))
			if _, err := p.Start(t.Context(), Runner{Java: "/nowhere/java"}, talk(nil), silent); err == nil || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("Start = %v, want %q", err, tt.words)
			}
		})
	}
}

// A source that has been written to since it was copied is found before clients are let in.
func TestASourceThatGoesOn(t *testing.T) {
	t.Parallel()
	src := filled(t, "")
	s := newSpec(t, FormatSystemd, "a", "b", "c")
	p, err := Grow(t.Context(), s, src, silent)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.sourceAsCopied(); err != nil {
		t.Fatal(err)
	}
	again := &Source{Dir: src.Dir}
	t.Run("running", func(t *testing.T) {
		run(t, again)
		if _, err := p.Verify(t.Context(), talk(nil)); err == nil || !strings.Contains(err.Error(), "at work there") {
			t.Errorf("Verify = %v", err)
		}
	})
	if _, err := p.Verify(t.Context(), talk(nil)); err == nil || !strings.Contains(err.Error(), "written to it since") {
		t.Errorf("Verify = %v", err)
	}
}

// A port that another program has is named before anything starts, and a process that ends tells why.
func TestMembersThatDoNotStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return strings.TrimPrefix(l.Addr().String(), "127.0.0.1:")
	}
	taken := strings.TrimPrefix(l.Addr().String(), "127.0.0.1:")
	s := newSpec(t, FormatLocal, "127.0.0.1:2181:"+free()+":"+taken, "127.0.0.1:2182:"+free()+":"+free(), "127.0.0.1:2183:"+free()+":"+free())
	p, err := Grow(t.Context(), s, filled(t, ""), silent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), Runner{Java: "/nowhere/java"}, talk(nil), silent); err == nil || !strings.Contains(err.Error(), "member 1: the election port") {
		t.Errorf("Start = %v", err)
	}
	log := filepath.Join(t.TempDir(), "log")
	const before = "java.io.IOException: of the run before\n"
	if err := os.WriteFile(log, []byte(before+"[main] INFO started\njava.lang.Exception: outer\n\tat x\nCaused by: java.net.BindException: Address already in use\nmore\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := &memberProcess{member: Member{ID: 2}, log: log, from: int64(len(before))}
	if err := r.why(io.EOF); !strings.Contains(err.Error(), "member 2 has ended: EOF: Caused by: java.net.BindException: Address already in use") {
		t.Errorf("why = %v", err)
	}
}
