package ztree

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// readForeign reads an export of zk_shell, zoocreeper, ZooNavigator or zkui. Their znodes come in any order, so they
// are sorted, and parents that are missing are added.
func readForeign(in *bufio.Reader) (format string, records []Record, err error) {
	first, err := firstByte(in)
	if err != nil {
		return "", nil, err
	}
	switch first {
	case '{':
		format, records, err = readPathMap(in)
	case '[':
		format = "ZooNavigator"
		records, err = readNavigator(in)
	case '/', '-', '#':
		format = "zkui"
		records, err = readZkui(in)
	default:
		return "", nil, fmt.Errorf("the format is not known (it begins with %q; known are exports of lockkeeper, zk_shell, zoocreeper, ZooNavigator and zkui)", first)
	}
	if err != nil {
		return format, nil, fmt.Errorf("%s export: %w", format, err)
	}
	records, err = withParents(records)
	return format, records, err
}

// firstByte returns the first byte that is no blank, and leaves it to be read.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err == io.EOF {
			return 0, ErrHalf
		}
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(b)) {
			return b, in.UnreadByte()
		}
	}
}

// A foreignACL is an ACL entry of zk_shell, which nests the id, or of zoocreeper.
type foreignACL struct {
	Perms  zk.Perm         `json:"perms"`
	Scheme string          `json:"scheme"`
	ID     json.RawMessage `json:"id"`
}

func (a foreignACL) acl() (zk.ACL, error) {
	var nested struct{ Scheme, ID string }
	if err := json.Unmarshal(a.ID, &nested); err == nil {
		return zk.ACL{Perms: a.Perms, Scheme: nested.Scheme, ID: nested.ID}, nil
	}
	out := zk.ACL{Perms: a.Perms, Scheme: a.Scheme}
	return out, json.Unmarshal(a.ID, &out.ID)
}

// readPathMap reads the exports of zk_shell and zoocreeper, an object with a member for each path.
func readPathMap(in io.Reader) (format string, records []Record, err error) {
	format = "zk_shell"
	d := json.NewDecoder(in)
	if _, err := d.Token(); err != nil {
		return format, nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return format, nil, err
		}
		var v struct {
			Content        []byte       `json:"content"`
			Data           []byte       `json:"data"`
			EphemeralOwner *int64       `json:"ephemeralOwner"`
			ACLs           []foreignACL `json:"acls"`
		}
		if err := d.Decode(&v); err != nil {
			return format, nil, fmt.Errorf("%v: %w", key, jsonError(err))
		}
		path, _ := key.(string)
		if v.EphemeralOwner != nil {
			format = "zoocreeper"
			if *v.EphemeralOwner != 0 {
				continue
			}
			v.Content = v.Data
		}
		r := Record{Path: path, Data: v.Content}
		for _, a := range v.ACLs {
			entry, err := a.acl()
			if err != nil {
				return format, nil, fmt.Errorf("%s: ACL: %w", path, err)
			}
			r.ACL = append(r.ACL, entry)
		}
		records = append(records, r)
	}
	_, err = d.Token() // the end
	return format, records, err
}

// jsonError says of a value of the wrong type what it is, without a type of ours.
func jsonError(err error) error {
	if typ := new(json.UnmarshalTypeError); errors.As(err, &typ) {
		return fmt.Errorf("%q: a JSON %s, which the format does not have there", typ.Field, typ.Value)
	}
	return err
}

// A navigatorNode is a tree of ZooNavigator: a head and its subtrees.
type navigatorNode struct {
	Head *struct {
		ACL []struct {
			ID          string   `json:"id"`
			Scheme      string   `json:"scheme"`
			Permissions []string `json:"permissions"`
		} `json:"acl"`
		Path string `json:"path"`
		Data []byte `json:"data"`
	} `json:"h"`
	Tail []navigatorNode `json:"t"`
}

func readNavigator(in io.Reader) (records []Record, err error) {
	d := json.NewDecoder(in)
	var trees []navigatorNode
	if err := d.Decode(&trees); err != nil {
		return nil, jsonError(err)
	}
	var add func(n navigatorNode) error
	add = func(n navigatorNode) error {
		if n.Head == nil {
			return fmt.Errorf("a znode without %q", "h")
		}
		r := Record{Path: n.Head.Path, Data: n.Head.Data}
		for _, a := range n.Head.ACL {
			entry := zk.ACL{Scheme: a.Scheme, ID: a.ID}
			for _, p := range a.Permissions {
				perm, ok := map[string]zk.Perm{"read": zk.PermRead, "write": zk.PermWrite, "create": zk.PermCreate, "delete": zk.PermDelete, "admin": zk.PermAdmin}[strings.ToLower(p)]
				if !ok {
					return fmt.Errorf("%s: %q is no permission", r.Path, p)
				}
				entry.Perms |= perm
			}
			r.ACL = append(r.ACL, entry)
		}
		records = append(records, r)
		for _, child := range n.Tail {
			if err := add(child); err != nil {
				return err
			}
		}
		return nil
	}
	for _, tree := range trees {
		if err := add(tree); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// readZkui reads lines /path=property=value. A line that begins with - would remove a property, which an import does
// not do.
func readZkui(in io.Reader) (records []Record, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineBytesMax)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), "\r")
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == '-':
			return nil, &FormatError{n, "a line that removes a property; lockkeeper z rm removes"}
		case line[0] != '/':
			return nil, &FormatError{n, "it is not /path=property=value"}
		}
		path, rest, ok := strings.Cut(line, "=")
		property, value, both := strings.Cut(rest, "=")
		if !ok || !both || property == "" {
			return nil, &FormatError{n, "it is not /path=property=value"}
		}
		records = append(records, Record{Path: zk.Join(path, property), Data: []byte(value), NoACL: true})
	}
	return records, lines.Err()
}

// withParents sorts records, parents first, and adds the parents that are missing.
func withParents(records []Record) ([]Record, error) {
	slices.SortStableFunc(records, func(a, b Record) int { return ComparePaths(a.Path, b.Path) })
	var all []Record
	there := map[string]bool{"/": true}
	for _, r := range records {
		if err := zk.ValidatePath(r.Path); err != nil {
			return nil, err
		}
		var missing []string
		for dir := zk.Parent(r.Path); !there[dir]; dir = zk.Parent(dir) {
			missing = append(missing, dir)
			there[dir] = true
		}
		for _, dir := range slices.Backward(missing) {
			all = append(all, Record{Path: dir, Implied: true})
		}
		if there[r.Path] && r.Path != "/" {
			return nil, fmt.Errorf("%s is there twice", r.Path)
		}
		there[r.Path] = true
		all = append(all, r)
	}
	return all, nil
}

// ComparePaths compares paths in the order of a walk: parents first, then by name.
func ComparePaths(a, b string) int {
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(strings.TrimPrefix(a, "/"), "/")
		y, b, _ = strings.Cut(strings.TrimPrefix(b, "/"), "/")
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
