package ensemble

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func newSpec(t *testing.T, format string, members ...string) *Spec {
	t.Helper()
	s := &Spec{Format: format, Out: filepath.Join(t.TempDir(), "out"), DataDir: "/var/lib/zookeeper", ConfDir: "/etc/zookeeper/conf", Heap: "1g", Image: "zookeeper:3.9.5", Name: "zk", Namespace: "ns"}
	var err error
	if s.Members, err = ParseMembers(members, DefaultPort(false), s.together()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseMembers(t *testing.T) {
	t.Parallel()
	got, err := ParseMembers([]string{"a", "7=b:21:22:23", "[::1]:99", "::1", "server.9=c"}, 2181, false)
	want := []string{"server.1=a:2888:3888 2181", "server.7=b:22:23 21", "server.3=[::1]:2888:3888 99", "server.4=[::1]:2888:3888 2181", "server.9=c:2888:3888 2181"}
	if err != nil || len(got) != len(want) {
		t.Fatalf("ParseMembers = %v, %v", got, err)
	}
	for i, m := range got {
		_, port, _ := strings.Cut(m.Address(), "]:")
		if port == "" {
			_, port, _ = strings.Cut(m.Address(), ":")
		}
		if line := m.Line() + " " + port; line != want[i] {
			t.Errorf("member %d is %q, want %q", i, line, want[i])
		}
	}
	for arg, words := range map[string]string{"x=a": "no number", "a:b": "no port", "a:1:2": "2 ports", "[::1": "lacks its ]"} {
		if _, err := ParseMembers([]string{arg}, 2181, false); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("ParseMembers(%q) = %v, want %q", arg, err, words)
		}
	}
}

func TestMembersThatCannotFormAnEnsemble(t *testing.T) {
	t.Parallel()
	for members, words := range map[string]string{
		"a":                        "has at least 3",
		"a b c d":                  "one more or one less",
		"a b a":                    "members 1 and 3 are both on a",
		"a b A":                    "members 1 and 3 are both on A",
		"1=a 1=b c":                "same number",
		"0=a b c":                  "not from 1 to 255",
		"256=a b c":                "not from 1 to 255",
		"a b localhost":            "each machine itself",
		"a b 127.1.2.3":            "each machine itself",
		"a b c/d":                  "no name of a host",
		"a b c:70000":              "not from 1 to 65535",
		"a:1:1:2 b c":              "a:1 is the client port of member 1 and the quorum port of member 1",
		"a b " + "1=":              "a host is missing",
		"a b a:2182:2889:3889":     "--format local",
		"10.0.0.1 b 10.0.0.1:2181": "both on 10.0.0.1",
	} {
		err := newSpec(t, FormatSystemd, strings.Fields(members)...).Check()
		if members == "a b 1=" {
			members = "a b (nothing)"
		}
		if err == nil || !strings.Contains(err.Error(), words) && !strings.Contains(err.Error(), "same number") {
			t.Errorf("%s: %v, want %q", members, err, words)
		}
	}
	if err := newSpec(t, FormatLocal, "127.0.0.1:1:2:3", "127.0.0.1:4:2:6", "localhost:7:8:9").Check(); err == nil || !strings.Contains(err.Error(), "127.0.0.1:2 is the quorum port of member 1 and the quorum port of member 2") {
		t.Errorf("two members with one port: %v", err)
	}
	if err := newSpec(t, FormatSystemd, "a", "b", "c").Check(); err != nil {
		t.Error(err)
	}
	if err := newSpec(t, FormatLocal, "127.0.0.1:1:2:3", "127.0.0.1:4:5:6", "localhost:7:8:9").Check(); err != nil {
		t.Error(err)
	}
}

func TestSettingsThatLoseData(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"db.autocreate=true", "zookeeper.db.autocreate=true", "snapshot.trust.empty=true", "dataDir=/x", "dataLogDir=/x", "zookeeper.dataLogDir=/x", "server.4=d", "noValue", "a=b\nc=d", "=x",
		`a=b\`, `a\=b`, "a=é", "a:b=c", "a b=c", "#a=b", "!a=b"} { // of which Java reads something else, as nothing of the next line
		if _, err := ParseSet([]string{text}); err == nil {
			t.Errorf("--set %s is taken", text)
		}
	}
	s := newSpec(t, FormatSystemd, "a", "b", "c")
	var err error
	if s.Set, err = ParseSet([]string{"tickTime=500", "maxSessionTimeout=90000", "jute.x=1"}); err != nil {
		t.Fatal(err)
	}
	text := s.zooCfg(s.Members[0], s.place(s.Members[0]), 2181)
	for _, line := range []string{"tickTime=500", "minSessionTimeout=1000", "maxSessionTimeout=90000", "jute.x=1", "db.autocreate=false", "snapshot.trust.empty=false", "server.3=c:2888:3888"} {
		if strings.Count("\n"+string(text), "\n"+line+"\n") != 1 {
			t.Errorf("zoo.cfg lacks %q, or has it twice:\n%s", line, text)
		}
	}
}

// A value that cannot be is refused by its key, before anything is written.
func TestSettingsWithoutANumber(t *testing.T) {
	t.Parallel()
	for text, words := range map[string]string{"tickTime=abc": "whole number", "zookeeper.initLimit=": "whole number", "maxClientCnxns=99999999999": "whole number", "tickTime=0": "1 or more", "snapCount=abc": "whole number"} {
		if _, err := ParseSet([]string{text}); err == nil || !strings.Contains(err.Error(), "--set "+text+": want ") || !strings.Contains(err.Error(), words) {
			t.Errorf("--set %s: %v, want %q", text, err, words)
		}
	}
	if _, err := ParseSet([]string{"reconfigEnabled=yes"}); err == nil || !strings.Contains(err.Error(), "--set reconfigEnabled=yes: must be true or false") {
		t.Errorf("what Apache ZooKeeper does not start with: %v", err)
	}
	s := newSpec(t, FormatSystemd, "a", "b", "c")
	s.Set = [][2]string{{"minSessionTimeout", "99999"}}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "is longer than maxSessionTimeout") {
		t.Errorf("limits that leave nothing: %v", err)
	}
	s.Set = [][2]string{{"group.1", "1:2"}}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "server.3=c:2888:3888: it is in no group") {
		t.Errorf("groups that leave a member out: %v", err)
	}
	if _, err := ParseSet([]string{"maxClientCnxns=0", "minSessionTimeout=-1"}); err != nil {
		t.Error(err)
	}
}

func TestHeap(t *testing.T) {
	t.Parallel()
	s := newSpec(t, FormatSystemd, "a", "b", "c")
	for heap, good := range map[string]bool{"foo": false, "": false, "0": false, "2 g": false, "1.5g": false, "512m": true, "2G": true, "1073741824": true, "1": false, "999k": false, "1024k": true} {
		s.Heap = heap
		if err := s.Check(); good != (err == nil) || !good && !strings.Contains(err.Error(), "--heap \""+heap+"\": want ") {
			t.Errorf("--heap %q: %v", heap, err)
		}
	}
}

// A shell reads the paths of the commands that are shown as they are meant.
func TestCommandsAreQuoted(t *testing.T) {
	t.Parallel()
	const out = "../my dir"
	for _, format := range Formats() {
		s := newSpec(t, format, "a:1:2:3", "b:4:5:6", "c:7:8:9")
		s.TLS = true
		p := &Plan{Spec: *s}
		for _, text := range []string{s.Next(out), p.Next(out), p.NextOpen(out)} {
			if !strings.Contains(text, out) || strings.Count(text, out) != strings.Count(text, "'"+out) {
				t.Errorf("%s: a path is not quoted:\n%s", format, text)
			}
		}
	}
	for path, want := range map[string]string{"/var/lib/a-b_1.c": "/var/lib/a-b_1.c", "../my dir": "'../my dir'", "it's": `'it'\''s'`, "a$b": "'a$b'"} {
		if got := shellPath(path); got != want {
			t.Errorf("shellPath(%s) = %s, want %s", path, got, want)
		}
	}
}

func TestInitWritesEachFileOnce(t *testing.T) {
	t.Parallel()
	for _, format := range Formats() {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, format, "a:1:2:3", "b:4:5:6", "c:7:8:9")
			s.TLS = true
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			written, err := Init(s)
			if err != nil || len(written) == 0 {
				t.Fatal(written, err)
			}
			for _, path := range written {
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(path)
				if err != nil || bytes.Contains(text, []byte("<no value>")) {
					t.Errorf("%s: %v\n%s", path, err, text)
				}
				if bytes.Contains(text, []byte("PRIVATE KEY")) && info.Mode().Perm() != secretMode {
					t.Errorf("%s has mode %v", path, info.Mode())
				}
			}
			if again, err := Init(s); err != nil || len(again) != 0 {
				t.Errorf("a second run writes %v, %v", again, err)
			}
			if format == FormatKubernetes {
				return
			}
			// Apache ZooKeeper has started, and has deleted the file.
			data := filepath.Join(s.Out, "member1", "data")
			if err := os.Remove(filepath.Join(data, initializeName)); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(data, versionName), 0o755); err != nil {
				t.Fatal(err)
			}
			if again, err := Init(s); err != nil || len(again) != 0 {
				t.Errorf("after the first start a run writes %v, %v", again, err)
			}
			if err := os.WriteFile(filepath.Join(s.Out, "member2", "data", myidName), []byte("9\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Init(s); err == nil || !strings.Contains(err.Error(), "other content") {
				t.Errorf("over another myid: %v", err)
			}
		})
	}
}

func TestPathsThatJavaReadsOtherwise(t *testing.T) {
	t.Parallel()
	for path, fine := range map[string]bool{"/a b/c": true, "/\u00e9": false, "/a\\b": false, "/a ": false, "/a\tb": false} {
		s := newSpec(t, FormatLocal, "127.0.0.1:1:2:3", "127.0.0.1:4:5:6", "127.0.0.1:7:8:9")
		s.Out = path
		if err := s.Check(); (err == nil) != fine {
			t.Errorf("--out %q: %v", path, err)
		}
	}
}

func TestInitRefusesADirectoryWithOtherFiles(t *testing.T) {
	t.Parallel()
	s := newSpec(t, FormatSystemd, "a", "b", "c")
	if err := os.MkdirAll(filepath.Join(s.Out, "member1", "data", versionName), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(s); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("Init over data = %v", err)
	}
	if all, err := names(s.Out); err != nil || len(all) != 1 {
		t.Errorf("something was written: %v, %v", all, err)
	}
}

func TestCertificatesOfOtherHostsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSpec(t, FormatSystemd, "a", "b", "c")
	s.TLS = true
	if _, err := Init(s); err != nil {
		t.Fatal(err)
	}
	s.Members[1].Host = "other"
	if _, err := Init(s); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("Init with another host = %v", err)
	}
	if err := os.Remove(filepath.Join(s.Out, "tls", "ca-key.pem")); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(s); err == nil || !strings.Contains(err.Error(), "put it back") {
		t.Errorf("Init without the authority's key = %v", err)
	}
}

// On the machine that runs the containers each member has a port of its own.
func TestPublishedPorts(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		"a b c":                "2181 2182 2183",
		"a:2181 b:2183 c:2181": "2181 2183 2182",
		"a:1 b:1 c:2":          "1 2 3",
	} {
		var got []string
		for _, one := range newSpec(t, FormatCompose, strings.Fields(members)...).services(nil) {
			got = append(got, strconv.Itoa(one.Published))
		}
		if ports := strings.Join(got, " "); ports != want {
			t.Errorf("%s: published %s, want %s", members, ports, want)
		}
	}
}
