package zkcli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ttlMax is the largest time to live that fits into a znode.
const ttlMax = 1<<40 - 1

// words are an error in the words of zkCli, punctuation included.
type words string

func (w words) Error() string { return string(w) }

// version reads the option -v.
func (in call) version() (int32, error) {
	text, given := in.values['v']
	if !given {
		return zk.AnyVersion, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("version %q is not a number", text) // the real one ends with an exception
	}
	return int32(n), nil
}

// aclOf reads an ACL as zkCli does, which goes on with what is left of a wrong one.
func (c *CLI) aclOf(text string) ([]zk.ACL, error) {
	var acl []zk.ACL
	for entry := range strings.SplitSeq(text, ",") {
		first, last := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
		if first < 0 || first == last {
			c.errf("%s does not have the form scheme:id:perm\n", entry)
			continue
		}
		a := zk.ACL{Scheme: entry[:first], ID: entry[first+1 : last]}
		for _, l := range entry[last+1:] {
			switch l {
			case 'r':
				a.Perms |= zk.PermRead
			case 'w':
				a.Perms |= zk.PermWrite
			case 'c':
				a.Perms |= zk.PermCreate
			case 'd':
				a.Perms |= zk.PermDelete
			case 'a':
				a.Perms |= zk.PermAdmin
			default:
				c.errf("Unknown perm type: %c\n", l)
			}
		}
		acl = append(acl, a)
	}
	if len(acl) == 0 {
		return nil, &client.OpError{Op: "create", Path: "null", Err: zk.ErrInvalidACL}
	}
	return acl, nil
}

func (c *CLI) create(ctx context.Context, in call) error {
	path := in.args[0]
	ephemeral, sequential, container := in.flags['e'], in.flags['s'], in.flags['c']
	text, timed := in.values['t']
	var ttl int64
	if timed {
		var err error
		if ttl, err = strconv.ParseInt(text, 10, 64); err != nil {
			return errors.New("-t argument must be a long value")
		}
	}
	switch {
	case container && (ephemeral || sequential):
		return words("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	case timed && ephemeral:
		return errors.New("TTLs cannot be used with Ephemeral znodes")
	case timed && container:
		return errors.New("TTLs cannot be used with Container znodes")
	case timed && (ttl <= 0 || ttl > ttlMax):
		return fmt.Errorf("ttl must be positive and cannot be larger than: %d", ttlMax)
	}
	mode := zk.Persistent
	switch {
	case container:
		mode = zk.Container
	case timed && sequential:
		mode = zk.PersistentSequentialTTL
	case timed:
		mode = zk.PersistentTTL
	case ephemeral && sequential:
		mode = zk.EphemeralSequential
	case ephemeral:
		mode = zk.Ephemeral
	case sequential:
		mode = zk.PersistentSequential
	}
	var data []byte
	if len(in.args) > 1 {
		data = []byte(in.args[1])
	}
	var acl []zk.ACL
	if len(in.args) > 2 {
		var err error
		if acl, err = c.aclOf(in.args[2]); err != nil {
			c.errf("KeeperErrorCode = InvalidACL\n") // twice, as the real one
			return err
		}
	}
	var made client.Created
	var err error
	if timed {
		made, err = c.session.CreateTTL(ctx, path, data, mode, acl, time.Duration(ttl)*time.Millisecond)
	} else {
		made, err = c.session.Create(ctx, path, data, mode, acl)
	}
	if err == nil {
		c.errf("Created %s\n", ztree.Escape(made.Path))
	}
	return err
}

func (c *CLI) set(ctx context.Context, in call) error {
	version, err := in.version()
	if err != nil {
		return err
	}
	st, err := c.session.Set(ctx, in.args[0], []byte(in.args[1]), version)
	if err == nil && in.flags['s'] {
		c.outf("%s", ztree.StatLines(&st))
	}
	return err
}

func (c *CLI) setACL(ctx context.Context, in call) error {
	version, err := in.version()
	if err != nil {
		return err
	}
	acl, err := c.aclOf(in.args[1])
	if err != nil {
		return err
	}
	set := func(path string) error {
		st, err := c.session.SetACL(ctx, path, acl, version)
		if err == nil && in.flags['s'] {
			c.outf("%s", ztree.StatLines(&st))
		}
		return err
	}
	if !in.flags['R'] {
		return set(in.args[0])
	}
	paths, err := ztree.Paths(ctx, c.session, in.args[0], nil)
	for _, path := range slices.Backward(paths) { // children first: the new list may forbid to list them
		if err = set(path); err != nil {
			break
		}
	}
	return err
}

func (c *CLI) delete(ctx context.Context, in call) error {
	version, err := in.version()
	if err != nil {
		return err
	}
	return c.session.Delete(ctx, in.args[0], version)
}

func (c *CLI) deleteAll(ctx context.Context, in call) error {
	if text, given := in.values['b']; given {
		if n, err := strconv.Atoi(text); err != nil || n < 1 {
			return fmt.Errorf("batch size %q is not a positive number", text)
		}
	}
	if err := c.session.Walk(ctx, in.args[0], func(string, zk.Stat) error { return nil }); err != nil {
		return err // before anything is deleted
	}
	_, err := ztree.Remove(ctx, c.session, in.args[0], nil)
	var part *ztree.PartError
	if errors.As(err, &part) && part.Done > 0 {
		c.errf("%d znodes have been deleted before this:\n", part.Done)
	}
	return err
}

func (c *CLI) addAuth(ctx context.Context, in call) error {
	return c.session.AddAuth(ctx, client.Auth{Scheme: in.args[0], Credential: []byte(in.args[1])})
}

// quotaOptions are the options of setquota and delquota, with the limit that each is about.
func quotaOptions(q *ztree.Quota) map[byte]*int64 {
	return map[byte]*int64{'n': &q.Count, 'b': &q.Bytes, 'N': &q.CountHard, 'B': &q.BytesHard}
}

func (c *CLI) setQuota(ctx context.Context, in call) error {
	path := in.args[0]
	if len(in.values) == 0 {
		return errors.New("org.apache.commons.cli.MissingOptionException: Missing required option: [-n num soft quota, -b bytes soft quota, -N num hard quota, -B bytes hard quota]")
	}
	change := ztree.NoQuota()
	for option, text := range in.values {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("NumberFormatException happens when parsing the option value")
		}
		*quotaOptions(&change)[option] = n
	}
	if err := zk.ValidatePath(ztree.QuotaPath(path) + "/x"); err != nil {
		return &zk.PathError{Path: path, Reason: "is not valid"}
	}
	if path == "/" {
		return &zk.PathError{Path: "//", Reason: "is the root"} // as the real one says
	}
	if _, there, err := c.session.Exists(ctx, path); err != nil {
		return err
	} else if !there {
		c.errf("%s does not exist.\n", path)
		c.status = failed
		return nil
	}
	switch dir, err := ztree.QuotaAbove(ctx, c.session, path); {
	case err != nil:
		return err
	case dir != "":
		c.errf("%s has a parent %s which has a quota\n", path, dir)
		c.status = failed
		return nil
	}
	switch below, err := ztree.QuotaBelow(ctx, c.session, path); {
	case err != nil:
		return err
	case below != "":
		c.errf("%s has a child %s which has a quota\n", path, ztree.Escape(below))
		c.status = failed
		return nil
	}
	q, _, err := ztree.ReadQuota(ctx, c.session, path)
	if errors.Is(err, zk.ErrNoNode) {
		q = ztree.NoQuota()
	} else if err != nil {
		return err
	}
	for option := range in.values {
		*quotaOptions(&q)[option] = *quotaOptions(&change)[option]
	}
	return ztree.SetQuota(ctx, c.session, path, q)
}

func (c *CLI) delQuota(ctx context.Context, in call) error {
	path := in.args[0]
	q, _, err := ztree.ReadQuota(ctx, c.session, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		c.errf("Quota does not exist for %s\n", path)
		c.status = failed
		return nil
	case err != nil:
		return err
	case len(in.flags) == 0:
		return ztree.DeleteQuota(ctx, c.session, path)
	}
	for option := range in.flags {
		*quotaOptions(&q)[option] = -1
	}
	return ztree.SetQuota(ctx, c.session, path, q)
}
