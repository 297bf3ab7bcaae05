package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"math/rand/v2"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// forged is bytes that a client may choose, of some size, in which a record begins that never was one.
func forged(rnd *rand.Rand, size int) []byte {
	b := bytes.Repeat([]byte{0xd5}, rnd.IntN(700))
	b = appendRecord(b, &Record{Txn: createTxn(1<<40, 1+rnd.IntN(100))})
	return append(b, bytes.Repeat([]byte{0xd5}, size)...)
}

// chosenTxns are transactions in each of which a client has chosen a field as forged makes it.
func chosenTxns(rnd *rand.Rand, zxid int64) map[string]*txn.Txn {
	f := forged(rnd, 1+rnd.IntN(4000))
	acl := append(zk.OpenACL(), zk.ACL{Perms: zk.PermAll, Scheme: "digest", ID: string(f)})
	set := txn.Change{Type: wire.OpSetData, Path: "/n1", Data: f, Version: 1}
	txns := map[string]*txn.Txn{}
	for name, c := range map[string]txn.Change{
		"create":        {Type: wire.OpCreate, Path: "/chosen", Data: f, ACL: zk.OpenACL()},
		"create, ACL":   {Type: wire.OpCreate2, Path: "/chosen", ACL: acl},
		"container":     {Type: wire.OpCreateContainer, Path: "/chosen", Data: f, ACL: zk.OpenACL()},
		"TTL":           {Type: wire.OpCreateTTL, Path: "/chosen", Data: f, ACL: zk.OpenACL(), TTL: 5},
		"set":           set,
		"set ACL":       {Type: wire.OpSetACL, Path: "/n1", ACL: acl, Version: 1},
		"multi":         {Type: wire.OpMulti, Subs: []txn.Change{{Type: wire.OpCheck, Path: "/n1", Version: 0}, {Type: wire.OpDelete, Path: "/n2"}, set}},
		"multi, create": {Type: wire.OpMulti, Subs: []txn.Change{set, {Type: wire.OpCreate, Path: "/chosen", Data: f, ACL: acl}}},
	} {
		txns[name] = &txn.Txn{Session: 1, Cxid: int32(zxid), Zxid: zxid, Time: 1000 + zxid, Change: c}
	}
	return txns
}

// Whatever a client has chosen, a record that a power failure tears is cut, and one with a wrong bit is refused.
func TestTornRecordsWithChosenFields(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	snapshot := snapshotBytes(t, 0)
	open := func(log []byte) (zxid int64, err error) {
		s, err := Open(memWith(t, map[string][]byte{"snapshot.0": snapshot, "log.1": log}), testOptions(), discard{})
		if err != nil {
			return 0, err
		}
		defer mustClose(t, s)
		return s.Recovery().Zxid, nil
	}
	for round := range 40 {
		for name, chosen := range chosenTxns(rnd, 4) {
			what := fmt.Sprintf("seed %d, round %d, %s", seed, round, name)
			log, at := logBytes(1, 3, 1+rnd.IntN(600))
			start := at[3]
			rec := Record{Txn: chosen, Digest: txn.Digest{Version: 2 * int32(rnd.IntN(2)), Tree: rnd.Uint64()}}
			log = appendRecord(log, &rec)
			behind := len(log)
			log = appendRecord(log, &Record{Txn: createTxn(5, 10)})

			torn := with(pad(log), start, make([]byte, len(log)-start)...)
			limit := start + rnd.IntN(len(log)-start) // most failures leave the end out
			for from := start; from < limit; {
				to := min(from+sectorBytes-from%sectorBytes, limit)
				if rnd.IntN(10) > 0 {
					copy(torn[from:to], log[from:to])
				}
				from = to
			}
			if zxid, err := open(torn); err != nil || zxid < 3 {
				t.Fatalf("%s, torn: found 0x%x, %v", what, zxid, err)
			}

			// The record is whole but for one bit, and what follows was acknowledged or is missing.
			for _, end := range []int{len(log), behind} {
				flips := []int{start + rnd.IntN(behind-start)}
				for b := range 8 * 60 { // every bit from the length to the lengths of the first fields
					flips = append(flips, start+8+b/8)
				}
				for i, flip := range flips {
					rotten := pad(log[:end])
					rotten[flip] ^= 1 << (i % 8)
					damage := (*DamageError)(nil)
					if zxid, err := open(rotten); !errors.As(err, &damage) {
						t.Fatalf("%s, a bit of byte %d of %d flipped: found 0x%x, %v, want damage", what, flip-start, end-start, zxid, err)
					}
					if round > 0 {
						break
					}
				}
			}
		}
	}
}

// A power failure in the middle of a large write is survived, whatever is written.
func TestPowerFailureWhileChosenDataIsWritten(t *testing.T) {
	seed := rand.Uint64()
	for round := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, round))
		fs, o := vfs.NewMem(), testOptions()
		s := openFresh(t, fs, o)
		mustAppend(t, s, creates(1, 3, 100))
		chosen := createTxn(4, 0)
		chosen.Data = forged(rnd, 100000)
		if err := s.Append([]Record{{Txn: chosen}}); err != nil {
			t.Fatal(err)
		}
		again, err := Open(fs.CrashClone(rnd), o, &twin{})
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		mustClose(t, again)
		mustClose(t, s)
	}
}

// A length that is wrong does not hide the records that follow, however much it claims.
func TestAWrongLengthReachesNoFurtherThanTheFields(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for name, chosen := range chosenTxns(rnd, 4) {
		log, at := logBytes(1, 3, 100)
		start := at[3]
		log = appendRecord(log, &Record{Txn: chosen})
		behind := len(log) - start
		for zxid := int64(5); zxid < 30; zxid++ {
			log = appendRecord(log, &Record{Txn: createTxn(zxid, 500)})
		}
		for claimed := behind; claimed < len(log)-start+1000; claimed += 1 + rnd.IntN(300) {
			b := with(log[start:], 8, byte(claimed>>24), byte(claimed>>16), byte(claimed>>8), byte(claimed))
			tl := tail{offset: int64(start), bytes: b, size: int64(len(log)), last: 3}
			if follower := tl.nextRecord(); follower != behind || tl.torn() {
				t.Fatalf("seed %d, %s, length %d of %d: the next record is seen at %d; torn: %t", seed, name, claimed, behind, follower, tl.torn())
			}
		}
	}
}

// The end of a write is missing, and what is there looks as if only its length were wrong: its checksum fits, since a client
// has chosen what follows so that it adds nothing.
func TestATornRecordThatLooksWhole(t *testing.T) {
	chosen := createTxn(4, 0)
	chosen.Data = bytes.Repeat([]byte{recordEnd}, 5000)
	b := appendRecord(nil, &Record{Txn: chosen})[:1000]
	binary.BigEndian.PutUint64(b, uint64(adler32.Checksum(b[recordHeaderBytes:len(b)-1])))
	if tl := (tail{offset: 1000, bytes: b, size: 1 << 20, last: 3}); !tl.torn() {
		t.Error("a torn record is refused for what a client has chosen")
	}
}

// zeroSum returns what follows the first 8 bytes of a record whose checksum is 0, so that these bytes are 0 as well.
func zeroSum() []byte {
	const modulus = 65521 // of Adler-32
	p := bytes.Repeat([]byte{93}, 700)
	binary.BigEndian.PutUint64(p[12:], 1<<40) // the zxid
	for i := 0; adler32.Checksum(p)&0xffff != 0; i++ {
		p[40+i%600]++
	}
	for i := 0; adler32.Checksum(p)>>16 != 0; i++ {
		d := min(modulus-int(adler32.Checksum(p)>>16), 500)
		p[100+i%100]++ // the same sum of bytes, and d more of their sums
		p[100+i%100+d]--
	}
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...), recordEnd)
}

// A lost sector may be followed by more zeros than a record mostly begins with, if a client has chosen a record whose checksum is 0.
func TestATornRecordWithAForgedChecksumOfZero(t *testing.T) {
	const lost = 3 // the sector in which the second operation begins, and behind whose end the forged record begins
	log, at := logBytes(1, 3, 10)
	start := at[3]
	record := func(first, second []byte) []byte {
		return appendRecord(nil, &Record{Txn: &txn.Txn{Session: 1, Cxid: 4, Zxid: 4, Time: 1004, Change: txn.Change{Type: wire.OpMulti, Subs: []txn.Change{
			{Type: wire.OpSetData, Path: "/n1", Data: first, Version: 1},
			{Type: wire.OpSetData, Path: "/n1", Data: second, Version: 2},
		}}}})
	}
	mark := []byte("here the data of the second operation begin")
	begin := start + bytes.Index(record(nil, mark), mark)
	filler := func(n int) []byte { return bytes.Repeat([]byte{0xd5}, n) }
	second := append(filler(sectorBytes-100-8), make([]byte, 8)...) // to the end of the sector
	second = append(append(second, zeroSum()...), filler(3000)...)
	whole := pad(append(bytes.Clone(log[:start]), record(filler(lost*sectorBytes+100-begin), second)...))
	clear(whole[lost*sectorBytes : (lost+1)*sectorBytes])
	s, err := Open(memWith(t, map[string][]byte{"snapshot.0": snapshotBytes(t, 0), "log.1": whole}), testOptions(), discard{})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	if zxid := s.Recovery().Zxid; zxid != 3 {
		t.Errorf("found 0x%x, want 0x3", zxid)
	}
}
