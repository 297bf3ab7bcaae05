package ensemble

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// Not parallel: the system's answer is replaced.
func TestNoSpace(t *testing.T) {
	src := filled(t, "")
	s := newSpec(t, FormatSystemd, "a", "b", "c")
	defer func(was func(string, *syscall.Statfs_t) error) { statfs = was }(statfs)
	statfs = func(_ string, s *syscall.Statfs_t) error {
		s.Bavail, s.Bsize = 10, 4096
		return nil
	}
	if _, err := Grow(t.Context(), s, src, silent); err == nil || !strings.Contains(err.Error(), "MiB are free") {
		t.Errorf("Grow on a full disk = %v", err)
	}
	if _, err := os.Stat(s.stage()); err == nil {
		t.Error("something was left behind")
	}
}
