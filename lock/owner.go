package lock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"
)

// An Owner is what a contender's znode says, in JSON, about the process that made it.
type Owner struct {
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Space   string    `json:"space,omitempty"` // of which PID is a number: equal for the processes of one boot of one machine, and one process namespace of it; empty where that is unknown
	Program string    `json:"program,omitempty"`
	Since   time.Time `json:"since,omitzero"`  // when the attempt began, by the owner's clock: for people, nothing is decided by it
	Label   string    `json:"label,omitempty"` // Options.Label
}

// Owner returns what the znodes of a lock with these options say about this process, with the PID of Options.PID if
// that is set. Since is left zero.
func (o *Options) Owner() Owner {
	who := Owner{Host: hostname(), PID: o.PID, Space: pidSpace(), Label: o.Label}
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

// signature returns what the data of all nodes begins with that this process makes with these options: the owner, in JSON
// that is yet to be closed.
func (o *Options) signature() []byte {
	return bytes.TrimSuffix(record{Owner: o.Owner()}.encode(), []byte("}"))
}

// nodeData returns the data of a node that is made now: its owner, and what r says besides. With Options.Data it is that.
func (l *lockBase) nodeData(r record) []byte {
	if l.opt.Data != nil {
		return l.opt.Data
	}
	b := make([]byte, 0, len(l.signature)+64)
	b = append(append(b, l.signature...), `,"since":"`...)
	b = time.Now().Truncate(time.Millisecond).AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	if reflect.ValueOf(r).IsZero() {
		return append(b, '}')
	}
	b = append(b, ',')
	return append(b, r.encode()[1:]...)
}

// parseOwner reads the data of a contender's node. Other clients write other things; then ok is false.
func parseOwner(data []byte) (o Owner, ok bool) {
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &o) != nil {
		return Owner{}, false
	}
	return o, o != Owner{}
}
