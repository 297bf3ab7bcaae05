package zk

import "fmt"

// Mode says what kind of znode to create. The values are those of the protocol.
type Mode int32

// The modes. A sequential znode gets the parent's ten-digit counter appended to its name. An
// ephemeral one is deleted when its session ends, a container some time after its last child, and
// one with a time to live when it has had no children and no change of its data for that time.
const (
	Persistent Mode = iota
	Ephemeral
	PersistentSequential
	EphemeralSequential
	Container
	PersistentTTL
	PersistentSequentialTTL
)

// Valid reports whether m is one of the modes of the protocol.
func (m Mode) Valid() bool { return m >= Persistent && m <= PersistentSequentialTTL }

// Ephemeral reports whether a znode of this mode goes with its session.
func (m Mode) Ephemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// Sequential reports whether the server appends the parent's counter to the name.
func (m Mode) Sequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialTTL
}

// TTL reports whether the mode takes a time to live.
func (m Mode) TTL() bool { return m == PersistentTTL || m == PersistentSequentialTTL }

var modeNames = [...]string{"persistent", "ephemeral", "persistent sequential",
	"ephemeral sequential", "container", "persistent with TTL", "persistent sequential with TTL"}

func (m Mode) String() string {
	if !m.Valid() {
		return fmt.Sprintf("Mode(%d)", int32(m))
	}
	return modeNames[m]
}
