package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// captured is what Apache ZooKeeper 3.8.0 has written, standing alone.
const captured = "../../../internal/server/store/testdata/plain"

const nodes = 20

// filled returns the data directory of a server of ours that has ended, with znodes below /app.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	srv, err := server.Open(server.Options{DataDir: dir, PreAllocBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	s, err := client.Open(t.Context(), l.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		path := fmt.Sprintf("/n%02d", i)
		if _, err := s.Create(t.Context(), path, []byte("value of "+path), zk.Persistent, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, server.ErrClosed) {
		t.Fatal(err)
	}
	return dir
}

// intact reports whether a server has all that filled has written.
func intact(t *testing.T, address string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := client.Open(ctx, address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	for i := range nodes {
		path := fmt.Sprintf("/n%02d", i)
		data, _, err := s.Get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return false
		}
		if err != nil || string(data) != "value of "+path {
			t.Fatalf("%s: %s: %q, %v", address, path, data, err)
		}
	}
	return true
}

// Apache ZooKeeper's defaults lose all data if two empty members start before the one with the data. This test shows that there is
// something to be prevented; what the next one sees is not luck.
func TestTheOrderThatLosesData(t *testing.T) {
	t.Parallel()
	args, addresses := hosts(t)
	dir := t.TempDir()
	var lines strings.Builder
	for i, a := range args {
		host, ports, _ := strings.Cut(a, ":")
		_, ports, _ = strings.Cut(ports, ":")
		fmt.Fprintf(&lines, "server.%d=%s:%s\n", i+1, host, ports)
	}
	configs := make([]string, len(args))
	for i, a := range addresses {
		_, port, _ := strings.Cut(a, ":")
		data := filepath.Join(dir, strconv.Itoa(i+1))
		if err := os.Mkdir(data, 0o755); err != nil {
			t.Fatal(err)
		}
		configs[i] = data + ".cfg"
		text := fmt.Sprintf("tickTime=500\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\ndataDir=%s\nclientPort=%s\n%s", data, port, &lines)
		err := errors.Join(os.WriteFile(filepath.Join(data, "myid"), fmt.Appendln(nil, i+1), 0o644), os.WriteFile(configs[i], []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	source := filled(t)
	if err := os.CopyFS(filepath.Join(dir, "1", "version-2"), os.DirFS(filepath.Join(source, "version-2"))); err != nil {
		t.Fatal(err)
	}
	start(t, configs[1])
	start(t, configs[2])
	awaitServing(t, addresses[1], addresses[2])
	start(t, configs[0])
	awaitServing(t, addresses[0])
	for _, a := range addresses {
		if intact(t, a) {
			t.Errorf("%s still has the data: the order of starts that lost it loses it no more", a)
		}
	}

	// While Apache ZooKeeper is at work, its directory is no source.
	out, err := lockkeeper(t, "ensemble", "grow", "--from", filepath.Join(dir, "2"), "--out", filepath.Join(dir, "out"))
	if err == nil || !strings.Contains(out, "is at work there, as process") {
		t.Errorf("grow from a running server: %v, %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
		t.Error("grow from a running server has written something")
	}
}

// An ensemble that has grown loses nothing in that order: members without their copy elect nothing. With their copies, in any order,
// all have the data before clients are let in.
func TestGrowInTheOrderThatLosesData(t *testing.T) {
	t.Parallel()
	args, addresses := hosts(t)
	source, out := filled(t), filepath.Join(t.TempDir(), "ensemble")
	must(t, append([]string{"ensemble", "grow", "--from=" + source, "--format=local", "--out=" + out, "--set=tickTime=500", "--set=admin.enableServer=false"}, args...)...)
	config := func(id int) string { return filepath.Join(out, fmt.Sprintf("member%d", id), "zoo.cfg") }
	data := func(id int) string { return filepath.Join(out, fmt.Sprintf("member%d", id), "data", "version-2") }
	asCopied, err := os.ReadFile(config(1))
	if err != nil {
		t.Fatal(err)
	}

	for _, id := range []int{2, 3} { // their disks are lost
		if err := os.Rename(data(id), data(id)+".lost"); err != nil {
			t.Fatal(err)
		}
	}
	second, third := start(t, config(2)), start(t, config(3))
	second.awaitLog("Unexpected empty data tree")
	third.awaitLog("Unexpected empty data tree")
	first := start(t, config(1))
	first.awaitLog("LOOKING")
	// With the defaults an ensemble serves within a second.
	said, err := lockkeeper(t, "ensemble", "grow", "--verify", "--timeout=3s", "--out="+out)
	if err == nil || strings.Count(said, "not currently serving") < 3 {
		t.Errorf("members without data: %v, %s", err, said)
	}
	if now, err := os.ReadFile(config(1)); err != nil || string(now) != string(asCopied) {
		t.Errorf("a verify that failed has changed zoo.cfg: %v\n%s", err, now)
	}

	for _, m := range []*member{first, second, third} {
		m.process.Kill()
	}
	for _, id := range []int{2, 3} {
		if err := errors.Join(os.RemoveAll(data(id)), os.Rename(data(id)+".lost", data(id))); err != nil {
			t.Fatal(err)
		}
	}

	// Two members to which the logs came over by half are a quorum, and serve. The first would give up what it has more.
	logs, err := filepath.Glob(filepath.Join(data(2), "log.*"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	whole, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int{2, 3} {
		if err := os.Truncate(filepath.Join(data(id), filepath.Base(logs[0])), int64(len(whole)/2)); err != nil {
			t.Fatal(err)
		}
	}
	second, third = start(t, config(2)), start(t, config(3))
	awaitServing(t, checked(t, addresses[1]), checked(t, addresses[2]))
	said, err = lockkeeper(t, "ensemble", "grow", "--verify", "--timeout=2s", "--out="+out)
	if err == nil || strings.Count(said, "it has other data") < 2 {
		t.Errorf("members with half of the data: %v, %s", err, said)
	}
	second.process.Kill()
	third.process.Kill()
	for _, id := range []int{2, 3} {
		if err := os.RemoveAll(data(id)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(data(id), os.DirFS(filepath.Join(source, "version-2"))); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []int{3, 2, 1} {
		start(t, config(id))
	}
	must(t, "ensemble", "grow", "--verify", "--out="+out)
	for _, a := range addresses {
		if serves(a) {
			t.Errorf("%s: clients are let in before all is verified", a)
		}
		if own := checked(t, a); !intact(t, own) {
			t.Errorf("%s lacks data", own)
		}
	}
	now, err := os.ReadFile(config(1))
	if err != nil || !strings.Contains(string(now), "\nclientPort="+addresses[0][len("127.0.0.1:"):]+"\n") {
		t.Errorf("zoo.cfg after a verify that succeeded: %v\n%s", err, now)
	}
}

// checked returns where a member is asked before clients are let in.
func checked(t *testing.T, address string) string {
	t.Helper()
	host, port, _ := strings.Cut(address, ":")
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", host, closed(n))
}

// One command takes a standalone Apache ZooKeeper to three members that serve clients.
func TestGrowAndStart(t *testing.T) {
	t.Parallel()
	args, addresses := hosts(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "data", "version-2"), os.DirFS(captured)); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "zoo.cfg")
	_, port, _ := strings.Cut(addresses[0], ":") // the first member takes the server's place
	if err := os.WriteFile(config, fmt.Appendf(nil, "dataDir=%s\ntickTime=500\nclientPort=%s\nmaxClientCnxns=7\nskipACL=no\nenforceQuota=yes\n", filepath.Join(dir, "data"), port), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "ensemble")
	t.Cleanup(func() { killMembers(t, out) })
	said := must(t, append([]string{"ensemble", "grow", "--from=" + config, "--start", "--format=local", "--out=" + out, "--heap=160m", "--set=admin.enableServer=false"}, args...)...)
	if strings.Count(said, "whole") != 3 || !strings.Contains(said, "clients are let in") {
		t.Errorf("grow says:\n%s", said)
	}
	servers := strings.Join(addresses, ",")
	want := must(t, "z", "find", "/", "--servers="+addresses[0])
	for _, a := range addresses[1:] {
		if got := must(t, "z", "find", "/", "--servers="+a); got != want {
			t.Errorf("%s has other znodes:\n%s\n%s", a, got, want)
		}
	}
	status := must(t, "status", "--servers="+servers)
	if strings.Count(status, "follower") != 2 {
		t.Errorf("status:\n%s", status)
	}
	if !strings.Contains(want, "/a/ttl") { // which Apache ZooKeeper deletes without the setting that grow adds
		t.Errorf("a znode with a time to live is gone:\n%s", want)
	}
	text, err := os.ReadFile(filepath.Join(out, "member2", "zoo.cfg"))
	if err != nil || !strings.Contains(string(text), "\ntickTime=500\n") || !strings.Contains(string(text), "\nmaxClientCnxns=7\n") || !strings.Contains(string(text), "\nenforceQuota=true\n") || !strings.Contains(said, "not taken over (--set KEY=VALUE does it): skipACL\n") {
		t.Errorf("the source's settings are gone: %v\n%s\n%s", err, text, said)
	}
	if said, err := lockkeeper(t, "ensemble", "grow", "--verify", "--out="+out); err == nil || !strings.Contains(said, "verified before") {
		t.Errorf("a second verify: %v, %s", err, said)
	}
}

// killMembers ends the members that --start has left running.
func killMembers(t *testing.T, out string) {
	for id := range 3 {
		text, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("member%d", id+1), "server.pid"))
		if err != nil {
			t.Error(err)
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Error(err)
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
}
