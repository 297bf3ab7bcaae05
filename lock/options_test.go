package lock

import (
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
)

// An option with a wrong value is refused by name, and the lock is named, too.
func TestOptionsThatMakeNoSense(t *testing.T) {
	for name, opt := range map[string]Options{
		"Vouch":          {Vouch: client.VouchWrite + 1},
		"QueueMax":       {QueueMax: -1},
		"CleanupTimeout": {CleanupTimeout: -1},
		"Deadlock":       {Deadlock: -1},
		"Delay":          {Delay: DelayMax + 1},
		"OneKind":        {OneKind: true},
	} {
		if _, err := opt.forLock(new(client.Session), "/l"); err == nil || !strings.Contains(err.Error(), "lock /l: option "+name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
