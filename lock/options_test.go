package lock

import (
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

// An option with a wrong value is refused by name, and the lock is named, too.
func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		name string
		opt  Options
	}{
		{"Vouch", Options{Vouch: client.VouchWrite + 1}},
		{"QueueMax", Options{QueueMax: -1}},
		{"CleanupTimeout", Options{CleanupTimeout: -1}},
		{"Deadlock", Options{Deadlock: -1}},
		{"Deadlock", Options{Deadlock: time.Second, Data: []byte("x")}},
		{"Delay", Options{Delay: DelayMax + 1}},
		{"OneKind", Options{OneKind: true}},
	} {
		if _, err := c.opt.forLock(new(client.Session), "/l"); err == nil || !strings.Contains(err.Error(), "lock /l: option "+c.name+": ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
