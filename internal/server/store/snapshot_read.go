package store

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"strconv"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/zk"
)

// fieldBytesMax is the longest string or buffer that is read from a snapshot.
const fieldBytesMax = 64 << 20

// readBufferBytesMin is more than any part of a snapshot that is looked at before it is taken.
const readBufferBytesMin = 512

// endOfTree is the path behind the last node; it stands behind every seal too.
const endOfTree = "/"

// errCompression is why a snapshot cannot be read that nothing need be wrong with.
var errCompression = errors.New("only gzip's compression is supported")

// readSnapshot gives the content of a snapshot to l, and EndSnapshot once all seals have been checked.
func readSnapshot(fs vfs.FS, s file, l Loader) error {
	f, err := fs.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	var src io.Reader = io.NewSectionReader(f, 0, size)
	switch s.ext {
	case "":
		if err := checkEnd(f, size); err != nil {
			return err
		}
	case ".gz":
		if src, err = gzip.NewReader(src); err != nil {
			return err
		}
	default:
		return errCompression
	}
	buffer := max(readBufferBytesMin, min(size, readBufferBytes))
	r := &snapshotReader{src: src, buf: make([]byte, buffer), sum: adler32.New()}
	if err := r.read(s.zxid, l); err != nil {
		return fmt.Errorf("at byte %d: %w", r.offset+int64(r.pos), err)
	}
	return nil
}

// checkEnd looks at the last bytes only, which is enough to find most snapshots that were cut short.
func checkEnd(f io.ReaderAt, size int64) error {
	var end [5]byte
	if size < 10 {
		return errors.New("cut short")
	}
	if n, err := f.ReadAt(end[:], size-int64(len(end))); n < len(end) {
		return err
	}
	if string(end[:]) != "\x00\x00\x00\x01"+endOfTree {
		return errors.New("cut short")
	}
	return nil
}

// A snapshotReader reads fields and sums up what was read. The first error sticks.
type snapshotReader struct {
	src io.Reader
	err error

	buf      []byte
	pos, end int         // of what is in buf and not yet taken
	summed   int         // what stands before it in buf is in sum
	sum      hash.Hash32 // Adler-32
	offset   int64       // of buf in the file
}

func (r *snapshotReader) read(zxid int64, l Loader) error {
	if magic, version := r.int32(), r.int32(); r.err == nil && (magic != snapshotMagic || version != formatVersion) {
		return errors.New("not the header of a snapshot")
	}
	r.int64() // dbid
	for range r.int32() {
		s := txn.SessionEntry{ID: r.int64(), Timeout: r.int32()}
		if r.err != nil {
			return r.err
		}
		if err := l.Session(s); err != nil {
			return err
		}
	}
	for range r.int32() {
		entry := txn.ACLEntry{ID: r.int64(), ACL: r.acl()}
		if r.err != nil {
			return r.err
		}
		if err := l.ACL(entry); err != nil {
			return err
		}
	}
	for {
		path := r.string()
		if r.err != nil {
			return r.err
		}
		if path == endOfTree {
			break
		}
		n := r.node(path)
		if r.err != nil {
			return r.err
		}
		if err := l.Node(n); err != nil {
			return err
		}
	}
	digest, err := r.sections()
	if err != nil {
		return err
	}
	return l.EndSnapshot(zxid, digest)
}

// lastZxidBytes is what a snapshot takes from the end of its seal 1 or 2, if only the section with
// the last zxid follows.
const lastZxidBytes = 8 + sealBytes

const sealBytes = 8 + 4 + len(endOfTree)

// sections reads what follows the tree: a seal, and any of two sections with a seal each. What
// releases to come may add behind those is not looked at.
func (r *snapshotReader) sections() (*SnapshotDigest, error) {
	r.seal()
	left := r.fill(lastZxidBytes + 1)
	if r.err != nil || left == 0 {
		return nil, r.err
	}
	var digest *SnapshotDigest
	if left > lastZxidBytes {
		digest = r.digest()
		r.seal()
		left = r.fill(1)
		if r.err != nil || left == 0 {
			return digest, r.err
		}
	}
	r.int64() // the last zxid, which is in the name too
	r.seal()
	return digest, r.err
}

func (r *snapshotReader) digest() *SnapshotDigest {
	d := &SnapshotDigest{Zxid: r.int64()}
	d.Version = r.int32()
	if d.Version >= 2 {
		d.Tree = uint64(r.int64())
		return d
	}
	tree, err := strconv.ParseUint(r.string(), 16, 64)
	if err != nil {
		r.fail(err)
	}
	d.Tree = tree
	return d
}

// seal checks the sum of everything before it.
func (r *snapshotReader) seal() {
	r.sumUp()
	want := uint64(r.sum.Sum32())
	got, end := uint64(r.int64()), r.string()
	if got != want {
		r.fail(errors.New("checksum does not match"))
	}
	if end != endOfTree {
		r.fail(errors.New("seal without its end"))
	}
}

func (r *snapshotReader) node(path string) txn.Node {
	return txn.Node{
		Path: path, Data: r.bytes(), ACLID: r.int64(),
		Czxid: r.int64(), Mzxid: r.int64(), Ctime: r.int64(), Mtime: r.int64(),
		Version: r.int32(), Cversion: r.int32(), Aversion: r.int32(),
		Owner: r.int64(), Pzxid: r.int64(),
	}
}

func (r *snapshotReader) acl() []zk.ACL {
	var acl []zk.ACL
	for range r.int32() {
		acl = append(acl, zk.ACL{Perms: zk.Perm(r.int32()), Scheme: r.string(), ID: r.string()})
		if r.err != nil {
			return nil
		}
	}
	return acl
}

func (r *snapshotReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *snapshotReader) sumUp() {
	r.sum.Write(r.buf[r.summed:r.pos])
	r.summed = r.pos
}

// fill sees to it that n bytes are in the buffer, or all that are left, and returns how many there are.
func (r *snapshotReader) fill(n int) int {
	if r.end-r.pos >= n {
		return r.end - r.pos
	}
	r.sumUp()
	r.offset += int64(r.pos)
	copy(r.buf, r.buf[r.pos:r.end])
	r.pos, r.end, r.summed = 0, r.end-r.pos, 0
	for r.end < n && r.err == nil {
		got, err := r.src.Read(r.buf[r.end:])
		r.end += got
		if err == io.EOF {
			break
		}
		if err != nil {
			r.fail(err)
		}
	}
	return r.end
}

// take returns the next n bytes, at most the size of the buffer, until the next call.
func (r *snapshotReader) take(n int) []byte {
	if r.err == nil && r.fill(n) < n {
		r.fail(io.ErrUnexpectedEOF)
	}
	if r.err != nil {
		return nil
	}
	r.pos += n
	return r.buf[r.pos-n : r.pos]
}

func (r *snapshotReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *snapshotReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// bytes reads a buffer; null is nil.
func (r *snapshotReader) bytes() []byte {
	n := int(r.int32())
	if r.err != nil || n == -1 {
		return nil
	}
	return r.field(n)
}

// string reads a string, which is never null.
func (r *snapshotReader) string() string {
	n := int(r.int32())
	if r.err == nil && n >= 0 && n <= len(r.buf) {
		return string(r.take(n))
	}
	return string(r.field(n))
}

// field returns the next n bytes, which are the caller's. It allocates no more than a small multiple of
// what the file really holds.
func (r *snapshotReader) field(n int) []byte {
	if n < 0 || n > fieldBytesMax {
		r.fail(fmt.Errorf("field of %d bytes", n))
	}
	if r.err != nil {
		return nil
	}
	out := make([]byte, 0, min(n, len(r.buf)))
	for len(out) < n && r.err == nil {
		out = append(out, r.take(min(n-len(out), len(r.buf)))...)
	}
	return out
}
