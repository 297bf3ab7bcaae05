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

// A Contender is a process that holds a lock or waits for it, as its znode shows it. Its fields are
//
//	Node    string    // path of its znode
//	Session int64     // that owns the znode
//	Token   int64     // creation zxid of the znode: the fencing token, if it holds the lock and has not downgraded
//	Since   time.Time // when it joined the queue, by the server's clock; not when it got the lock
//	Shared  bool      // it asks for the read side of a read/write lock
//	Latch   bool      // it is a candidate of an election
//	Owner   Owner     // which process it is; zero if another library made the znode
//	Data    []byte    // the znode's data as it is
//	Held    bool      // it holds the lock, going by the queue: its process may not have heard of that yet
//	Place   int       // how many are ahead of it in the queue, 0 for the first; readers ahead of a reader count too
//	Revoked bool      // it was asked to give the lock up; see inspect.Revoke
//
// Its method Describe returns words such as "backup pid 4711 on host7 (nightly)".
type Contender = queue.Contender

// An Owner is what a contender's znode says about the process that made it: the strings Host, User (only the command says it),
// Program and Label (Options.Label), the int PID, and the string Space (the process namespace that PID belongs to, equal for the
// processes of one boot of one machine and one namespace of it).
type Owner = queue.Owner

// A Kind says what a lock is, as its znodes tell; package inspect names the kinds.
type Kind = queue.Kind

// Owner returns what the znodes of a lock with these options say about this process, or about the process on whose
// behalf it takes the lock.
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
