package ztree

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/zk"
)

// The format of an export is JSON, a line for each of:
//
//	{"format":"lockkeeper-tree","version":1,"root":"/app"}
//	{"path":"/","data":"aGVsbG8="}
//	{"path":"/config","text":"hello","acl":[{"scheme":"world","id":"anyone","perms":"r"}]}
//	{"end":true,"znodes":2,"left_out":0}
//
// Paths are relative to the root, parents come first. The data is in text if it is UTF-8, else in data, in base64; without
// either it is empty, and null is noted as such. Without acl, all may do all. The last line is missing from half an
// export. The whole may be compressed with gzip.
const (
	formatName    = "lockkeeper-tree"
	formatVersion = 1
)

// A Record is a znode of an export.
type Record struct {
	Path string // relative to the root of the export
	Data []byte
	ACL  []zk.ACL // nil is open to all

	Implied bool // a parent that an export does not name: it is made if it is missing, and stays as it is if it is there
	NoACL   bool // the format has none: what is overwritten keeps its own
}

type aclLine struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

// A recordLine is any line of an export.
type recordLine struct {
	Format  string `json:"format,omitempty"`
	Version int    `json:"version,omitempty"`
	Root    string `json:"root,omitempty"`

	Path string    `json:"path,omitempty"`
	Text string    `json:"text,omitempty"`
	Data []byte    `json:"data,omitempty"`
	Null bool      `json:"null,omitempty"`
	ACL  []aclLine `json:"acl,omitempty"`

	End     bool `json:"end,omitempty"`
	Znodes  int  `json:"znodes,omitempty"`
	LeftOut int  `json:"left_out,omitempty"`
}

// An Exporter writes an export.
type Exporter struct {
	json    *json.Encoder
	znodes  int
	leftOut int
}

// NewExporter writes the first line.
func NewExporter(w io.Writer, root string) (*Exporter, error) {
	e := &Exporter{json: json.NewEncoder(printable.JSON(w))}
	e.json.SetEscapeHTML(false)
	return e, e.json.Encode(recordLine{Format: formatName, Version: formatVersion, Root: root})
}

// Add writes a znode.
func (e *Exporter) Add(r Record) error {
	line := recordLine{Path: r.Path, Null: r.Data == nil}
	if IsUTF8(r.Data) {
		line.Text = string(r.Data)
	} else {
		line.Data = r.Data
	}
	if !IsOpen(r.ACL) {
		for _, a := range r.ACL {
			line.ACL = append(line.ACL, aclLine{a.Scheme, a.ID, FormatPerms(a.Perms)})
		}
	}
	e.znodes++
	return e.json.Encode(line)
}

// End writes the last line, without which the export is not whole.
func (e *Exporter) End() error {
	return e.json.Encode(recordLine{End: true, Znodes: e.znodes, LeftOut: e.leftOut})
}

// IsUTF8 reports whether data survives as text in JSON.
func IsUTF8(data []byte) bool {
	return strings.ToValidUTF8(string(data), "") == string(data)
}

// IsOpen reports whether an ACL lets all do all.
func IsOpen(acl []zk.ACL) bool {
	return acl == nil || len(acl) == 1 && acl[0] == zk.OpenACL()[0]
}

// A FormatError says where a file is not what it should be.
type FormatError struct {
	Line int
	Why  string
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// ErrHalf is the error of an export that ends in the middle.
var ErrHalf = errors.New("the file ends in the middle: it is half an export")

// lineBytesMax is the longest line that is read: an ACL, and 16 MiB of data, each byte as six characters at most (\u0000).
const lineBytesMax = 6*16<<20 + 1<<20

// foreignBytesMax is how long an export of another program may be, unpacked: it is read whole, and a few kilobytes may unpack to
// gigabytes.
const foreignBytesMax = 1 << 30

// ReadExport reads an export of any known format, which it finds out by itself, and calls see for each znode. It
// returns the format's name. Foreign formats are read whole before the first znode is seen.
func ReadExport(r io.Reader, see func(Record) error) (format string, err error) {
	return readExport(r, foreignBytesMax, see)
}

func readExport(r io.Reader, foreignMax int64, see func(Record) error) (format string, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return "", fmt.Errorf("gzip: %w", err)
		}
		in = bufio.NewReaderSize(z, 1<<16)
	}
	head, err := in.Peek(len(`{"format":"` + formatName))
	if string(head) == `{"format":"`+formatName {
		return "lockkeeper", halved(readOwn(in, see))
	}
	if len(head) == 0 {
		if err == io.EOF {
			err = ErrHalf
		}
		return "", halved(err)
	}
	unpacked := &io.LimitedReader{R: in, N: foreignMax}
	format, records, err := readForeign(bufio.NewReaderSize(unpacked, 1<<16))
	if unpacked.N == 0 {
		return format, fmt.Errorf("an export of another program that is %d bytes or longer is not read, since it would be in memory as a whole (divide it)", foreignMax)
	}
	if err != nil {
		return format, halved(err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return format, halved(err)
	}
	for _, rec := range records {
		if err := see(rec); err != nil {
			return format, err
		}
	}
	return format, nil
}

// halved names an input that ends too early.
func halved(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrHalf
	}
	return err
}

func readOwn(in io.Reader, see func(Record) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), lineBytesMax)
	seen := 0
	for n := 1; lines.Scan(); n++ {
		var line recordLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			if !lines.Scan() { // the last one was cut
				return errors.Join(ErrHalf, lines.Err())
			}
			return &FormatError{n, err.Error()}
		}
		switch {
		case n == 1 && line.Version != formatVersion:
			return &FormatError{n, fmt.Sprintf("it is of version %d, and this program knows version %d", line.Version, formatVersion)}
		case n == 1:
		case line.End && line.Znodes != seen:
			return &FormatError{n, fmt.Sprintf("the export had %d znodes, and the file has %d", line.Znodes, seen)}
		case line.End:
			if lines.Scan() {
				return &FormatError{n + 1, "there is more behind the end"}
			}
			return lines.Err() // a checksum may stand behind it
		default:
			rec, err := line.record()
			if err != nil {
				return &FormatError{n, err.Error()}
			}
			seen++
			if err := see(rec); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return ErrHalf
}

func (l *recordLine) record() (Record, error) {
	r := Record{Path: l.Path, Data: l.Data}
	if err := zk.ValidatePath(l.Path); err != nil {
		return r, err
	}
	if l.Data == nil && !l.Null {
		r.Data = []byte(l.Text)
	}
	for _, a := range l.ACL {
		perms := zk.Perm(0)
		for _, c := range []byte(a.Perms) {
			for _, p := range permLetters {
				if p.letter == c {
					perms |= p.perm
				}
			}
		}
		r.ACL = append(r.ACL, zk.ACL{Perms: perms, Scheme: a.Scheme, ID: a.ID})
	}
	return r, nil
}
