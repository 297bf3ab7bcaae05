package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The adapters are modules of their own: go get finds this one for them by the version that they require.
func TestAdaptersRequireTheRelease(t *testing.T) {
	t.Parallel()
	for _, adapter := range []string{"metrics/prometheus", "tracing/otel", "discovery/grpc"} {
		file := filepath.Join("../..", adapter, "go.mod")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if want := "\tgithub.com/lockkeeper/lockkeeper v" + release + "\n"; !strings.Contains(string(b), want) {
			t.Errorf("%s does not require %q", file, want)
		}
	}
}
