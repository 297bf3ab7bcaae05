package backup

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/server"
)

// The admin port as Apache ZooKeeper 3.9 documents it.
func TestAdmin(t *testing.T) {
	t.Parallel()
	dir := filled(t, server.Options{}, 4)
	snapshotAgain(t, server.Options{DataDir: dir})
	found, err := filepath.Glob(filepath.Join(dir, versionDir, "snapshot.*"))
	must(t, err)
	newest := found[0]
	snapshot, err := os.ReadFile(newest)
	must(t, err)
	zxid := strings.TrimPrefix(filepath.Base(newest), "snapshot.")
	if zxid == "0" || len(found) != 1 {
		t.Fatalf("snapshots: %q", found)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write(snapshot)
	w.Close()

	answer := func(status int, header map[string]string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/commands/snapshot" || r.URL.Query().Get("streaming") != "true" {
				http.Error(w, "no such command", http.StatusNotFound)
				return
			}
			if r.Header.Get("Authorization") != "digest super:open sesame" {
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(status)
			w.Write(body)
		}
	}
	head := func(size int) map[string]string {
		return map[string]string{"last_zxid": "0x" + zxid, "snapshot_size": fmt.Sprint(size)}
	}
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		want    string // empty: a backup
		refused bool
	}{
		"plain":      {answer(200, head(len(snapshot)), snapshot), "", false},
		"packed":     {answer(200, head(packed.Len()), packed.Bytes()), "", false},
		"limited":    {answer(429, nil, nil), "admin.rateLimiterIntervalInMS", false},
		"disabled":   {answer(503, nil, []byte(`{"error": "Snapshot command is disabled"}`)), "admin.snapshot.enabled", false},
		"no zxid":    {answer(500, nil, nil), "serializeLastProcessedZxid.enabled=true", false},
		"forbidden":  {answer(403, nil, nil), "all permissions on /", true},
		"3.8":        {answer(200, map[string]string{"Content-Type": "application/json"}, []byte(`{"error": "Unknown command"}`)), "since 3.9", false},
		"not found":  {http.NotFound, "since 3.9", false},
		"cut short":  {answer(200, head(len(snapshot)), snapshot[:len(snapshot)-5]), "the server announced", false},
		"broken off": {answer(200, map[string]string{"last_zxid": "0x" + zxid, "Content-Length": fmt.Sprint(len(snapshot))}, snapshot[:100]), "broke off after 100 bytes", false},
		"without end": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("last_zxid", "0x"+zxid)
			w.Header().Set("snapshot_size", fmt.Sprint(len(snapshot)))
			for err := error(nil); err == nil; {
				_, err = w.Write(snapshot)
			}
		}, "and sent more", false},
		"another size": {answer(200, map[string]string{"last_zxid": "0x" + zxid, "snapshot_size": "many"}, snapshot), `"many" is no size`, false},
		"no snapshot":  {answer(200, head(6), []byte("<html>")), `it begins with "<htm"`, false},
		"half in all":  {answer(200, head(len(snapshot)/2), snapshot[:len(snapshot)/2]), "cannot be read", false},
		"teapot":       {answer(418, nil, []byte("short and stout")), "short and stout", false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(tt.handler)
			defer srv.Close()
			backups := t.TempDir()
			path, m, err := Make(t.Context(), Admin{URL: srv.URL, Credentials: "super:open sesame", Client: srv.Client()}, backups)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrNotPermitted) != tt.refused {
					t.Errorf("Make: %v, want %q", err, tt.want)
				}
				if left, err := os.ReadDir(backups); err != nil || len(left) > 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
				return
			}
			must(t, err)
			if m.Zxid.String() != "0x"+zxid || m.Znodes != 9 || m.Source != srv.URL {
				t.Errorf("the manifest says %+v", m)
			}
			target := filepath.Join(t.TempDir(), "target")
			_, err = Restore(t.Context(), path, target, "")
			must(t, err)
			if got := children(t, server.Options{DataDir: target}); len(got) != 4 {
				t.Errorf("restored: %q", got)
			}
		})
	}
	srv := httptest.NewServer(answer(200, head(len(snapshot)), snapshot))
	defer srv.Close()
	if _, _, err := Make(t.Context(), Admin{URL: srv.URL, Client: srv.Client()}, t.TempDir()); !errors.Is(err, ErrNotPermitted) {
		t.Errorf("without credentials: %v", err)
	}
}
