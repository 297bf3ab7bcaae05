package ztree

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ParseOp reads an operation of a multi from words:
//
//	create [-e] [-s] [-c] PATH [DATA [ACL]]
//	set PATH DATA [VERSION]
//	delete PATH [VERSION]
//	check PATH VERSION
func ParseOp(words []string) (op client.Op, err error) {
	verb, args := words[0], words[1:]
	mode := zk.Persistent
	for verb == "create" && len(args) > 0 && len(args[0]) == 2 && args[0][0] == '-' {
		switch {
		case args[0] == "-e" && mode == zk.Persistent:
			mode = zk.Ephemeral
		case args[0] == "-s" && mode == zk.Persistent:
			mode = zk.PersistentSequential
		case args[0] == "-e" && mode == zk.PersistentSequential, args[0] == "-s" && mode == zk.Ephemeral:
			mode = zk.EphemeralSequential
		case args[0] == "-c" && mode == zk.Persistent:
			mode = zk.Container
		default:
			return op, fmt.Errorf("create: %s is not a mode that fits here (-e, -s, -e -s or -c)", args[0])
		}
		args = args[1:]
	}
	limits, ok := map[string][2]int{"create": {1, 3}, "set": {2, 3}, "delete": {1, 2}, "check": {2, 2}}[verb]
	if !ok {
		return op, fmt.Errorf("%q is no operation of a multi (create, set, delete, check)", verb)
	}
	if len(args) < limits[0] || len(args) > limits[1] {
		return op, fmt.Errorf("%s takes %d to %d arguments, and has %d", verb, limits[0], limits[1], len(args))
	}
	path := args[0]
	check := path
	if mode.Sequential() {
		check += "0"
	}
	if err := zk.ValidatePath(check); err != nil {
		return op, err
	}
	version := zk.AnyVersion
	if at := map[string]int{"set": 2, "delete": 1, "check": 1}[verb]; at > 0 && len(args) > at {
		n, err := strconv.ParseInt(args[at], 10, 32)
		if err != nil || n < -1 {
			return op, fmt.Errorf("%s %s: %q is no version (a number from 0, or -1 for any)", verb, path, args[at])
		}
		version = int32(n)
	}
	switch verb {
	case "create":
		var data []byte
		var acl []zk.ACL
		if len(args) > 1 {
			data = []byte(args[1])
		}
		if len(args) > 2 {
			if acl, err = ParseACL(args[2]); err != nil {
				return op, err
			}
		}
		return client.OpCreate(path, data, mode, acl), nil
	case "set":
		return client.OpSet(path, []byte(args[1]), version), nil
	case "delete":
		return client.OpDelete(path, version), nil
	}
	return client.OpCheck(path, version), nil
}

// Quota is what limits a tree. -1 is no limit.
type Quota struct {
	Count     int64 `json:"count"` // the server writes to its log when these two are exceeded
	Bytes     int64 `json:"bytes"`
	CountHard int64 `json:"hard_count"` // the server refuses what would exceed these two, if it enforces quotas
	BytesHard int64 `json:"hard_bytes"`
}

// NoQuota is the quota without a limit.
func NoQuota() Quota { return Quota{-1, -1, -1, -1} }

// QuotaPath returns where the quota of a znode stands: the parent of its limits and of its statistics.
func QuotaPath(path string) string { return "/zookeeper/quota" + strings.TrimSuffix(path, "/") }

// The znodes below QuotaPath.
const (
	limitsName = "zookeeper_limits"
	usageName  = "zookeeper_stats"
)

func (q Quota) String() string {
	text := fmt.Sprintf("count=%d,bytes=%d", q.Count, q.Bytes)
	if q.CountHard >= 0 || q.BytesHard >= 0 {
		text += q.hard()
	}
	return text
}

func (q Quota) hard() string {
	return fmt.Sprintf("=;byteHardLimit=%d;countHardLimit=%d", q.BytesHard, q.CountHard)
}

// limits writes q as zkCli does.
func (q Quota) limits() string {
	soft := Quota{q.Count, q.Bytes, -1, -1}
	return soft.String() + q.hard()
}

// ParseQuota reads what stands in a quota's znodes.
func ParseQuota(text string) (Quota, error) {
	q := NoQuota()
	fields := map[string]*int64{"count": &q.Count, "bytes": &q.Bytes, "byteHardLimit": &q.BytesHard, "countHardLimit": &q.CountHard}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(strings.TrimSuffix(value, "="), 10, 64)
		if err != nil || fields[name] == nil {
			return q, fmt.Errorf("quota %q: %q is not understood", text, part)
		}
		*fields[name] = n
	}
	return q, nil
}

// ReadQuota returns the quota of a znode and what is used of it, as far as the server has noted that.
func ReadQuota(ctx context.Context, s *client.Session, path string) (limits, used Quota, err error) {
	used = NoQuota()
	for i, name := range []string{limitsName, usageName} {
		data, _, err := s.Get(ctx, QuotaPath(path)+"/"+name)
		if name == usageName && errors.Is(err, zk.ErrNoNode) { // another client made the limits alone
			return limits, used, nil
		}
		if err != nil {
			return limits, used, err
		}
		q, err := ParseQuota(string(data))
		if err != nil {
			return limits, used, err
		}
		if i == 0 {
			limits = q
		} else {
			used = q
		}
	}
	return limits, used, nil
}

// QuotaAbove returns the nearest znode above path that has a quota, empty if there is none. Quotas must not be nested.
func QuotaAbove(ctx context.Context, s *client.Session, path string) (string, error) {
	for dir := zk.Parent(path); dir != "/"; dir = zk.Parent(dir) {
		if _, there, err := s.Exists(ctx, QuotaPath(dir)+"/"+limitsName); err != nil || there {
			return dir, err
		}
	}
	return "", nil
}

// QuotaBelow returns a znode below path that has a quota, empty if there is none. Changes below it would count for it alone.
func QuotaBelow(ctx context.Context, s *client.Session, path string) (below string, err error) {
	own := QuotaPath(path)
	err = Walk(ctx, s, own, WalkOptions{}, func(n *Node) error {
		if dir := zk.Parent(n.Path); below == "" && zk.Base(n.Path) == limitsName && dir != own {
			below = strings.TrimPrefix(dir, QuotaPath("/"))
		}
		return nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return below, err
}

// SetQuota makes or changes the quota of a znode. The root can have none: Apache ZooKeeper 3.8 takes such a quota, ends by
// it, and does not start again.
func SetQuota(ctx context.Context, s *client.Session, path string, q Quota) error {
	if path == "/" {
		return &zk.PathError{Path: path, Reason: "is the root, which can have no quota"}
	}
	for _, node := range []struct{ name, text string }{{limitsName, q.limits()}, {usageName, "count=0,bytes=0"}} {
		full := QuotaPath(path) + "/" + node.name
		if err := s.EnsurePath(ctx, zk.Parent(full), nil); err != nil {
			return err
		}
		_, err := s.Create(ctx, full, []byte(node.text), zk.Persistent, nil)
		if errors.Is(err, zk.ErrNodeExists) {
			err = nil
			if node.name == limitsName { // the other is the server's to change
				_, err = s.Set(ctx, full, []byte(node.text), zk.AnyVersion)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// DeleteQuota removes the quota of a znode.
func DeleteQuota(ctx context.Context, s *client.Session, path string) error {
	if err := s.Delete(ctx, QuotaPath(path)+"/"+limitsName, zk.AnyVersion); err != nil {
		return err
	}
	if err := s.Delete(ctx, QuotaPath(path)+"/"+usageName, zk.AnyVersion); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for dir := QuotaPath(path); dir != "/zookeeper/quota"; dir = zk.Parent(dir) {
		if err := s.Delete(ctx, dir, zk.AnyVersion); err != nil {
			if errors.Is(err, zk.ErrNotEmpty) || errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			return err
		}
	}
	return nil
}
