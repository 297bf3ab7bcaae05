package lock

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// An Owner is what a contender's znode says, in JSON, about the process that made it.
type Owner struct {
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Program string    `json:"program,omitempty"`
	Since   time.Time `json:"since,omitzero"`  // when the attempt began, by the owner's clock: for people, nothing is decided by it
	Label   string    `json:"label,omitempty"` // Options.Label
}

// Owner returns what the znodes of a lock with these options say about this process, with the PID of Options.PID if
// that is set. Since is left zero.
func (o *Options) Owner() Owner {
	who := Owner{Host: hostname(), PID: o.PID, Label: o.Label}
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

// nodeData returns the data of a node that is made now.
func (o *Options) nodeData() []byte { return o.encode(record{}) }

// encode returns the data of a node that is made now: its owner, and what r says besides. With Options.Data it is that.
func (o *Options) encode(r record) []byte {
	if o.Data != nil {
		return o.Data
	}
	r.Owner = o.Owner()
	r.Since = time.Now().Truncate(time.Millisecond)
	return r.encode()
}

// parseOwner reads the data of a contender's node. Other clients write other things; then ok is false.
func parseOwner(data []byte) (o Owner, ok bool) {
	if len(data) == 0 || data[0] != '{' || json.Unmarshal(data, &o) != nil {
		return Owner{}, false
	}
	return o, o != Owner{}
}
