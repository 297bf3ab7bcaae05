package zkcli

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

// legacy notes the old way to ask for a watch, a second argument "watch".
func (c *CLI) legacy(verb string, in call) bool {
	if len(in.args) < 2 {
		return in.flags['w']
	}
	usage := verb + " [-w] path"
	if verb == "get" {
		usage = "get [-s] [-w] path"
	}
	c.errf("'%s path [watch]' has been deprecated. Please use '%s' instead.\n", verb, usage)
	return true
}

func (c *CLI) ls(ctx context.Context, in call) error {
	path := in.args[0]
	watch := c.legacy("ls", in)
	if in.flags['R'] {
		names, _, err := c.session.Children(ctx, path)
		if err != nil {
			return err
		}
		c.outf("%s\n", ztree.Escape(path))
		return c.lsBelow(ctx, path, names)
	}
	var names []string
	var st zk.Stat
	var err error
	if watch {
		var w *client.Watch
		if names, st, w, err = c.session.WatchChildren(ctx, path); err == nil {
			c.await(childWatch, path, w)
		}
	} else {
		names, st, err = c.session.Children(ctx, path)
	}
	if err != nil {
		return err
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = ztree.Escape(name)
	}
	c.outf("[%s]\n", strings.Join(names, ", "))
	if in.flags['s'] {
		c.outf("%s", ztree.StatLines(&st))
	}
	return nil
}

// lsBatch is how many znodes are asked for their children at a time.
const lsBatch = 500

// lsBelow prints the children of path, and then what is below each of them.
func (c *CLI) lsBelow(ctx context.Context, path string, names []string) error {
	slices.Sort(names)
	for _, name := range names {
		c.outf("%s\n", ztree.Escape(zk.Join(path, name)))
	}
	for batch := range slices.Chunk(names, lsBatch) {
		p := c.session.Pipeline()
		listed := make([]*client.Pending[client.Listing], len(batch))
		for i, name := range batch {
			listed[i] = p.Children(zk.Join(path, name))
		}
		p.Send(ctx)
		for i, name := range batch {
			list, err := listed[i].Wait(ctx)
			if err == nil {
				err = c.lsBelow(ctx, zk.Join(path, name), list.Names)
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) { // otherwise deleted meanwhile
				return err
			}
		}
	}
	return nil
}

func (c *CLI) get(ctx context.Context, in call) error {
	return c.read(ctx, in.args[0], c.legacy("get", in), in.flags['s'])
}

func (c *CLI) config(ctx context.Context, in call) error {
	return c.read(ctx, "/zookeeper/config", in.flags['w'], in.flags['s'])
}

func (c *CLI) read(ctx context.Context, path string, watch, stat bool) error {
	var data []byte
	var st zk.Stat
	var err error
	if watch {
		var w *client.Watch
		if data, st, w, err = c.session.WatchGet(ctx, path); err == nil {
			c.await(dataWatch, path, w)
		}
	} else {
		data, st, err = c.session.Get(ctx, path)
	}
	if err != nil {
		return err
	}
	if data == nil {
		data = []byte("null")
	}
	if c.Screen && !ztree.IsText(data) {
		c.outf("%s", hex.Dump(data))
	} else {
		c.outf("%s\n", data)
	}
	if stat {
		c.outf("%s", ztree.StatLines(&st))
	}
	return nil
}

func (c *CLI) stat(ctx context.Context, in call) error {
	path := in.args[0]
	var st zk.Stat
	var there bool
	var err error
	if c.legacy("stat", in) {
		var w *client.Watch
		if st, there, w, err = c.session.WatchExists(ctx, path); err == nil {
			c.await(dataWatch, path, w)
		}
	} else {
		st, there, err = c.session.Exists(ctx, path)
	}
	switch {
	case err != nil:
		return err
	case !there:
		return &client.OpError{Op: "stat", Path: path, Err: zk.ErrNoNode}
	}
	c.outf("%s", ztree.StatLines(&st))
	return nil
}

func (c *CLI) getACL(ctx context.Context, in call) error {
	acl, st, err := c.session.ACL(ctx, in.args[0])
	if err != nil {
		return err
	}
	for _, a := range acl {
		c.outf("'%s,'%s\n: %s\n", ztree.Escape(a.Scheme), ztree.Escape(a.ID), ztree.FormatPerms(a.Perms))
	}
	if in.flags['s'] {
		c.outf("%s", ztree.StatLines(&st))
	}
	return nil
}

func (c *CLI) allChildren(ctx context.Context, in call) error {
	n, err := c.session.CountBelow(ctx, in.args[0])
	if err == nil {
		c.outf("%d\n", n)
	}
	return err
}

func (c *CLI) ephemerals(ctx context.Context, in call) error {
	prefix := "/"
	if len(in.args) > 0 {
		prefix = in.args[0]
	}
	paths, err := c.session.Ephemerals(ctx, prefix)
	if err != nil {
		return err
	}
	slices.Sort(paths)
	c.outf("[%s]\n", ztree.Escape(strings.Join(paths, ", ")))
	return nil
}

func (c *CLI) sync(ctx context.Context, in call) error {
	if err := c.session.Sync(ctx, in.args[0]); err != nil {
		return err
	}
	c.outf("Sync is OK\n")
	return nil
}

func (c *CLI) whoAmI(ctx context.Context, _ call) error {
	ids, err := c.session.WhoAmI(ctx)
	if err != nil {
		return err
	}
	c.outf("Auth scheme: User\n")
	for _, id := range ids {
		c.outf("%s: %s\n", ztree.Escape(id.Scheme), ztree.Escape(id.ID))
	}
	return nil
}

func (c *CLI) listQuota(ctx context.Context, in call) error {
	path := in.args[0]
	at := ztree.QuotaPath(path)
	c.errf("absolute path is %s/zookeeper_limits\n", at)
	for _, z := range []struct{ name, words string }{{"zookeeper_limits", "quota"}, {"zookeeper_stats", "stat"}} {
		data, _, err := c.session.Get(ctx, at+"/"+z.name)
		if errors.Is(err, zk.ErrNoNode) {
			c.errf("quota for %s does not exist.\n", path)
			return nil
		}
		if err != nil {
			return err
		}
		c.outf("Output %s for %s %s\n", z.words, path, ztree.Escape(string(data)))
	}
	return nil
}
