package lock

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// An Owner is what a contender's znode says about the process that made it: the strings Host, User (only the command says it),
// Program and Label (Options.Label), the int PID, and the string Space (the process namespace that PID belongs to, equal for the
// processes of one boot of one machine and one namespace of it).
type Owner = queue.Owner

// Owner returns what the znodes of a lock with these options say about this process, or the one on whose behalf it takes the lock.
func (o *Options) Owner() Owner {
	who := Owner{Host: hostname(), PID: cmp.Or(o.pid, os.Getpid()), User: o.user, Space: pidSpace(), Label: o.Label}
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
