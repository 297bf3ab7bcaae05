package session

import (
	"encoding/binary"
	"time"
)

// PasswordBytes is the length of a password. Clients written in C rely on it.
const PasswordBytes = 16

// passwordSalt is the constant that Apache ZooKeeper mixes into ids to seed its generator.
const passwordSalt = 0xB3415C00

// Password is the password of a session: a function of its id, the same as in Apache ZooKeeper,
// so that sessions survive when one server takes over the data directory of the other. It is no
// secret: the algorithm is public; it guards against mistakes.
func Password(id int64) [PasswordBytes]byte {
	// java.util.Random: a 48-bit linear congruential generator.
	const multiplier, mask = 0x5DEECE66D, 1<<48 - 1
	state := (uint64(id) ^ passwordSalt ^ multiplier) & mask
	var p [PasswordBytes]byte
	for i := 0; i < len(p); i += 4 {
		state = (state*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(state>>16))
	}
	return p
}

// IDs makes session ids in Apache ZooKeeper's layout: the server's number in the top byte, forty
// bits of the time at which the server started, and a counter below, which may run on into the
// time.
type IDs struct{ next int64 }

// NewIDs returns a source of ids for the server with this number, 1 to 254, started startMillis
// after an epoch that does not change from start to start.
func NewIDs(serverID uint8, startMillis int64) IDs {
	return IDs{int64(uint64(startMillis)<<24>>8 | uint64(serverID)<<56)}
}

// Next returns an id that it has not returned before and that is not in t.
func (g *IDs) Next(t *Table) int64 {
	for {
		id := g.next
		g.next++
		if t.sessions[id] == nil {
			return id
		}
	}
}

// Negotiate returns the timeout granted to a client that asks for so many milliseconds.
func Negotiate(askedMillis int32, lowest, highest time.Duration) time.Duration {
	return min(max(time.Duration(askedMillis)*time.Millisecond, lowest), highest)
}
