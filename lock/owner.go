package lock

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A Contender is a process that holds a lock or waits for it, as its znode shows it.
type Contender = queue.Contender

// An Owner is what a contender's znode says about the process that made it.
type Owner = queue.Owner

// A Kind says what a lock is, as its znodes tell; package inspect names the kinds.
type Kind = queue.Kind

// Owner returns what the znodes of a lock with these options say about this process, or about the process on whose
// behalf it takes the lock. Since is left zero.
func (o *Options) Owner() Owner {
	who := Owner{Host: hostname(), PID: o.pid, User: o.user, Space: pidSpace(), Label: o.Label}
	if who.PID == 0 {
		who.PID = os.Getpid()
	}
	if len(os.Args) > 0 {
		who.Program = filepath.Base(os.Args[0])
	}
	return who
}

// hostname is the host's name as it was when it was first asked for, or empty.
var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname() // unknown is unknown
	return name
})

// pidSpace is Owner.Space of this process. Containers may have their machine's name, and machines may share one, so the
// host does not tell of whose processes a number is.
var pidSpace = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // not Linux
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(append(boot, namespace...)))
})
