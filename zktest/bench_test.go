package zktest_test

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// What a test pays for a server of its own.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		srv, err := zktest.Start(zktest.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := srv.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
