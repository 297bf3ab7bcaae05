package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"time"
)

const (
	// PasswordBytes is the length of a password. Clients written in C rely on it.
	PasswordBytes = 16
	// SecretBytes is the length of the secret that an Issuer takes.
	SecretBytes = 32
)

// passwordSalt is the constant that Apache ZooKeeper mixes into ids to seed its generator.
const passwordSalt = 0xB3415C00

// ApachePassword returns the password that Apache ZooKeeper gives a session. It is a function of the session's id, and
// ids are no secret: a client that knows the id can compute it.
func ApachePassword(id int64) [PasswordBytes]byte {
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

// The top byte of an id says which password the session has.
const (
	apacheServer = 1    // of an Apache ZooKeeper without an ensemble: ApachePassword
	keyedServer  = 0x4c // of this server: computed with the secret
)

// An Issuer makes the ids and the passwords of sessions. Guarantees:
//
//  1. the password of a session whose id it made cannot be computed without the secret, and its ids say nothing about
//     each other;
//  2. the same secret accepts the same passwords after a restart;
//  3. sessions that another server made, on the same data directory, keep the passwords of Apache ZooKeeper.
//
// An issuer for Apache ZooKeeper gives up the first guarantee: all its passwords are those of Apache ZooKeeper, so that
// sessions survive when Apache ZooKeeper takes over the data directory.
//
// Password and Accepts are safe for concurrent use.
type Issuer struct {
	secret []byte // nil if there is none
	apache bool
	next   uint64 // the number of the next id
}

// NewIssuer returns an issuer whose ids have the numbers from first on, cut to idBits bits. A session whose number
// comes again after a restart has the id and the password of the old one: so first is a random number, or, for Apache
// ZooKeeper, ApacheFirst. The secret has SecretBytes bytes; an issuer for Apache ZooKeeper can do without it.
func NewIssuer(secret []byte, apache bool, first uint64) *Issuer {
	return &Issuer{secret: secret, apache: apache, next: first}
}

// ApacheFirst returns the number with which Apache ZooKeeper begins if it is started at that time: forty bits of the time, and
// a counter below, which may run on into the time.
func ApacheFirst(startMillis int64) uint64 { return uint64(startMillis) << 24 >> 8 }

// Next returns an id that it has not returned before and that is not in t.
func (g *Issuer) Next(t *Table) int64 {
	for {
		id := g.id(g.next & idMask)
		g.next++
		if t.sessions[id] == nil {
			return id
		}
	}
}

// An id is a number of idBits bits below the top byte.
const (
	idBits   = 56
	idMask   = 1<<idBits - 1
	halfBits = idBits / 2
	halfMask = 1<<halfBits - 1
)

// id returns the id for a number. No two numbers have the same id: a Feistel network keyed with the secret changes the
// order of the numbers and loses none.
func (g *Issuer) id(number uint64) int64 {
	if g.apache {
		return int64(number | apacheServer<<idBits)
	}
	left, right := number>>halfBits, number&halfMask
	for round := range byte(4) {
		mixed := g.mac("id", round, right)
		left, right = right, left^uint64(binary.BigEndian.Uint32(mixed))&halfMask
	}
	return int64(left<<halfBits | right | keyedServer<<idBits)
}

// Password returns the password to give to the client of a session.
func (g *Issuer) Password(id int64) [PasswordBytes]byte {
	if g.apache || !isKeyed(id) {
		return ApachePassword(id)
	}
	return g.keyedPassword(id)
}

// Accepts reports whether password is that of the session. An issuer for Apache ZooKeeper accepts the passwords that
// were given before its time, too.
func (g *Issuer) Accepts(id int64, password []byte) bool {
	want := g.Password(id)
	ok := subtle.ConstantTimeCompare(password, want[:]) == 1
	if g.apache && isKeyed(id) && g.secret != nil {
		want = g.keyedPassword(id)
		ok = ok || subtle.ConstantTimeCompare(password, want[:]) == 1
	}
	return ok
}

func (g *Issuer) keyedPassword(id int64) [PasswordBytes]byte {
	return [PasswordBytes]byte(g.mac("password", 0, uint64(id)))
}

// mac returns the keyed hash of a number, for one purpose.
func (g *Issuer) mac(purpose string, round byte, number uint64) []byte {
	h := hmac.New(sha256.New, g.secret)
	h.Write(binary.BigEndian.AppendUint64(append([]byte(purpose), round), number))
	return h.Sum(nil)
}

func isKeyed(id int64) bool { return uint64(id)>>idBits == keyedServer }

// Negotiate returns the timeout granted to a client that asks for so many milliseconds.
func Negotiate(askedMillis int32, lowest, highest time.Duration) time.Duration {
	return min(max(time.Duration(askedMillis)*time.Millisecond, lowest), highest)
}
