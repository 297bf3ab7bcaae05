package script

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// null stands for a null string, buffer or list.
const null = "null"

// verbs are the requests, by their names in the protocol.
var verbs = map[string]wire.Op{
	"create": wire.OpCreate, "create2": wire.OpCreate2, "createContainer": wire.OpCreateContainer, "createTTL": wire.OpCreateTTL,
	"delete": wire.OpDelete, "deleteContainer": wire.OpDeleteContainer, "check": wire.OpCheck,
	"setData": wire.OpSetData, "setACL": wire.OpSetACL, "getACL": wire.OpGetACL,
	"exists": wire.OpExists, "getData": wire.OpGetData, "getChildren": wire.OpGetChildren, "getChildren2": wire.OpGetChildren2,
	"getAllChildrenNumber": wire.OpAllChildrenCount, "getEphemerals": wire.OpGetEphemerals,
	"multi": wire.OpMulti, "multiRead": wire.OpMultiRead, "reconfig": wire.OpReconfig,
	"sync": wire.OpSync, "ping": wire.OpPing, "auth": wire.OpAuth, "sasl": wire.OpSASL, "whoAmI": wire.OpWhoAmI,
	"setWatches": wire.OpSetWatches, "setWatches2": wire.OpSetWatches2, "addWatch": wire.OpAddWatch,
	"checkWatches": wire.OpCheckWatches, "removeWatches": wire.OpRemoveWatches,
	"close": wire.OpCloseSession,
}

// opOf returns the type of a request; "op" takes it as its first argument.
func opOf(c *Call) (wire.Op, error) {
	if c.Verb == "op" {
		n, err := strconv.ParseInt(c.arg(0), 10, 32)
		return wire.Op(n), err
	}
	op, ok := verbs[c.Verb]
	if !ok {
		return 0, fmt.Errorf("no request is called %q", c.Verb)
	}
	return op, nil
}

// arg returns an argument, or "" if there are fewer.
func (c *Call) arg(i int) string {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return ""
}

// An encoder appends arguments as fields; the first error sticks.
type encoder struct {
	b    []byte
	args []string
	base int64 // that zxids with a sign are counted from
	err  error
}

func (e *encoder) next() string {
	if len(e.args) == 0 {
		if e.err == nil {
			e.err = fmt.Errorf("too few arguments")
		}
		return "0"
	}
	a := e.args[0]
	e.args = e.args[1:]
	return a
}

func (e *encoder) string() {
	e.word(e.next())
}

func (e *encoder) word(s string) {
	if s == null {
		e.b = wire.AppendInt32(e.b, -1)
	} else {
		e.b = wire.AppendString(e.b, s)
	}
}

func (e *encoder) buffer() {
	s := e.next()
	switch x, count, many := strings.Cut(s, "*"); {
	case s == null:
		e.b = wire.AppendBuffer(e.b, nil)
	case many:
		n, err := strconv.Atoi(count)
		e.fail(err)
		e.b = wire.AppendBuffer(e.b, []byte(strings.Repeat(x, n)))
	default:
		e.b = wire.AppendBuffer(e.b, append([]byte{}, s...))
	}
}

func (e *encoder) int32() { e.b = wire.AppendInt32(e.b, int32(e.int(e.next(), 32))) }

func (e *encoder) int64() { e.b = wire.AppendInt64(e.b, e.int(e.next(), 64)) }

func (e *encoder) int(s string, bits int) int64 {
	n, err := strconv.ParseInt(s, 0, bits)
	e.fail(err)
	return n
}

// zxid counts those with a plus from the start of the case.
func (e *encoder) zxid() {
	s := e.next()
	n := e.int(s, 64)
	if strings.HasPrefix(s, "+") {
		n += e.base
	}
	e.b = wire.AppendInt64(e.b, n)
}

// watch takes the argument only if there is one.
func (e *encoder) watch() {
	on := len(e.args) > 0 && e.args[0] == "watch"
	if on {
		e.next()
	}
	e.b = wire.AppendBool(e.b, on)
}

func (e *encoder) strings() {
	s := e.next()
	switch s {
	case null:
		e.b = wire.AppendInt32(e.b, -1)
	case "-":
		e.b = wire.AppendStrings(e.b, nil)
	default:
		items := strings.Split(s, ",")
		e.b = wire.AppendInt32(e.b, int32(len(items)))
		for _, item := range items {
			e.word(item)
		}
	}
}

func (e *encoder) acl() {
	s := e.next()
	switch s {
	case null:
		e.b = wire.AppendInt32(e.b, -1)
		return
	case "empty":
		e.b = wire.AppendInt32(e.b, 0)
		return
	case "open":
		s = "31:world:anyone"
	}
	entries := strings.Split(s, ",")
	e.b = wire.AppendInt32(e.b, int32(len(entries)))
	for _, entry := range entries {
		parts := strings.SplitN(entry, ":", 3)
		if len(parts) < 3 {
			e.fail(fmt.Errorf("ACL entry %q", entry))
			return
		}
		e.b = wire.AppendInt32(e.b, int32(e.perms(parts[0])))
		e.word(parts[1])
		e.word(parts[2])
	}
}

func (e *encoder) perms(s string) zk.Perm {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return zk.Perm(n)
	}
	var p zk.Perm
	for _, c := range s {
		i := strings.IndexRune("rwcda", c)
		if i < 0 {
			e.fail(fmt.Errorf("permissions %q", s))
			return 0
		}
		p |= 1 << i
	}
	return p
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// record appends the record of a request.
func (e *encoder) record(op wire.Op) {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		e.string()
		e.buffer()
		e.acl()
		e.int32()
		if op == wire.OpCreateTTL {
			e.int64()
		}
	case wire.OpDelete, wire.OpCheck, wire.OpCheckWatches, wire.OpRemoveWatches, wire.OpAddWatch:
		e.string()
		e.int32()
	case wire.OpSetData:
		e.string()
		e.buffer()
		e.int32()
	case wire.OpSetACL:
		e.string()
		e.acl()
		e.int32()
	case wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2:
		e.string()
		e.watch()
	case wire.OpGetACL, wire.OpSync, wire.OpAllChildrenCount, wire.OpGetEphemerals, wire.OpDeleteContainer:
		e.string()
	case wire.OpAuth:
		e.b = wire.AppendInt32(e.b, 0)
		e.string()
		e.buffer()
	case wire.OpSASL:
		e.buffer()
	case wire.OpReconfig:
		e.string()
		e.string()
		e.string()
		e.int64()
	case wire.OpSetWatches, wire.OpSetWatches2:
		e.zxid()
		lists := 3
		if op == wire.OpSetWatches2 {
			lists = 5
		}
		for range lists {
			e.strings()
		}
	case wire.OpMulti, wire.OpMultiRead:
		e.multi()
	}
	if e.err == nil && len(e.args) > 0 {
		e.err = fmt.Errorf("too many arguments: %q", e.args)
	}
}

// multi appends the operations between semicolons, and the end.
func (e *encoder) multi() {
	words := e.args
	for len(words) > 0 {
		end := 0
		for end < len(words) && words[end] != ";" {
			end++
		}
		c := Call{Verb: words[0], Args: words[1:end]}
		op, err := opOf(&c)
		e.fail(err)
		e.b = wire.AppendInt32(wire.AppendBool(wire.AppendInt32(e.b, int32(op)), false), -1)
		e.args = c.Args
		if c.Verb == "op" {
			e.args = e.args[1:]
		}
		e.record(op)
		words = words[min(end+1, len(words)):]
	}
	e.args = nil
	e.b = wire.AppendInt32(wire.AppendBool(wire.AppendInt32(e.b, -1), true), -1)
}

// defaultXids are what clients send with the requests that have an xid of their own.
var defaultXids = map[wire.Op]int32{
	wire.OpPing: wire.XidPing, wire.OpAuth: wire.XidAuth,
	wire.OpSetWatches: wire.XidSetWatches, wire.OpSetWatches2: wire.XidSetWatches,
}

// encode returns the frame of a call and its xid.
func encode(c *Call, xid int32, base int64) (frame []byte, sent int32, err error) {
	op, err := opOf(c)
	if err != nil {
		return nil, 0, err
	}
	if special, ok := defaultXids[op]; ok {
		xid = special
	}
	e := encoder{args: c.Args, base: base}
	if s, ok := c.Mods["xid"]; ok {
		xid = int32(e.int(s, 32))
	}
	b, start := wire.BeginFrame(nil)
	h := wire.RequestHeader{Xid: xid, Op: op}
	e.b = h.AppendTo(b)
	if c.Verb == "op" {
		body, err := hex.DecodeString(c.arg(1))
		e.fail(err)
		e.b = append(e.b, body...)
	} else {
		e.record(op)
	}
	for mod, s := range c.Mods {
		n, _ := strconv.Atoi(s)
		switch mod {
		case "trunc":
			e.b = e.b[:len(e.b)-n]
		case "pad":
			e.b = append(e.b, make([]byte, n)...)
		case "size":
			e.b = append(e.b, make([]byte, n-(len(e.b)-4))...)
		case "xid", "unordered":
		default:
			e.fail(fmt.Errorf("nothing is called %q", mod))
		}
	}
	return wire.EndFrame(e.b, start), xid, e.err
}
