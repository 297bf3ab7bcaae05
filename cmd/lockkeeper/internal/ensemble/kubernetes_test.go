package ensemble

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script returns what the manifest runs before each start of a pod, with the directory in place of the pod's root.
func script(t *testing.T, manifest, root string) string {
	t.Helper()
	_, rest, ok := strings.Cut(manifest, "          args:\n            - |\n")
	text, _, also := strings.Cut(rest, "          volumeMounts:\n")
	if !ok || !also {
		t.Fatalf("there is no script in the manifest:\n%s", manifest)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimPrefix(line, strings.Repeat(" ", 14)))
	}
	return strings.NewReplacer(" /data", " "+root+"/data", " /first-start", " "+root+"/first-start", " /tls", " "+root+"/tls").Replace(b.String())
}

// The permission to begin empty is for new volumes while the object of the first start is there, and for no others.
func TestTheFirstStartInKubernetes(t *testing.T) {
	t.Parallel()
	s := newSpec(t, FormatKubernetes)
	s.Members, s.TLS = KubernetesMembers(3, s.Name, s.Namespace, DefaultPort(true)), true
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(s); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(s.Out, "kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		files          []string // content after a blank
		begins, starts bool
	}{
		"first start":              {[]string{"first-start/initialize "}, true, true},
		"second start":             {[]string{"first-start/initialize ", "data/myid 2", "data/version-2/log.1 "}, false, true},
		"volume lost later":        {nil, false, true},
		"data lost":                {[]string{"first-start/initialize ", "data/myid 2"}, false, true},
		"a copy of data":           {[]string{"first-start/initialize ", "data/version-2/log.1 "}, false, true},
		"the volume of another":    {[]string{"data/myid 3"}, false, false},
		"another, and permission":  {[]string{"first-start/initialize ", "data/myid 3"}, false, false},
		"a number that is no more": {[]string{"data/myid x"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, dir := range []string{"data", "tls", "tls-all"} {
				if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range append(tt.files, "tls-all/server-2.pem s", "tls-all/quorum-2.pem q", "tls-all/ca.pem c", "tls-all/quorum-ca.pem d") {
				path, content, _ := strings.Cut(f, " ")
				path = filepath.Join(root, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("bash", "-euc", script(t, string(manifest), root))
			cmd.Env = append(os.Environ(), "HOSTNAME=zk-1")
			out, err := cmd.CombinedOutput()
			if (err == nil) != tt.starts {
				t.Errorf("the script ends with %v: %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(root, "data", initializeName)); (err == nil) != tt.begins {
				t.Errorf("the permission to begin empty: %v", err)
			}
			if id, err := os.ReadFile(filepath.Join(root, "data", myidName)); tt.starts && (err != nil || strings.TrimSpace(string(id)) != "2") {
				t.Errorf("myid is %q, %v", id, err)
			}
			if key, err := os.ReadFile(filepath.Join(root, "tls", "server.pem")); tt.starts && string(key) != "s" {
				t.Errorf("server.pem is %q, %v", key, err)
			}
		})
	}
}
