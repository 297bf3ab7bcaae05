// Package model holds the sequential machines that histories are checked against: what happened must be
// something that could have happened one step after the other, each step at some instant between its call
// and its return (linearizability). A step whose outcome is not known may have happened at any time after its
// call, or not at all.
package model

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockkeeper/lockkeeper/zk"
)

// Never is the return of a step whose outcome is not known.
const Never = time.Duration(math.MaxInt64)

// A History collects steps.
type History struct{ ops []porcupine.Operation }

// Add adds a step. Several goroutines may run steps at once.
func (h *History) Add(in any, call time.Duration, out any, ret time.Duration) {
	h.ops = append(h.ops, porcupine.Operation{ClientId: len(h.ops), Input: in, Call: int64(call), Output: out, Return: int64(ret)})
}

// checkMax bounds how long one history is looked at; virtual time has nothing to do with it.
const checkMax = 10 * time.Second

// Explained reports whether some order explains the history. A history that takes too long to check counts
// as explained, and as unknown.
func (h *History) Explained(m porcupine.Model) (ok, unknown bool) {
	r := porcupine.CheckOperationsTimeout(m, h.ops, checkMax)
	return r != porcupine.Illegal, r == porcupine.Unknown
}

// Slots is how many znodes a Znodes history is about.
const Slots = 3

// A Change is one operation of a step on znodes.
type Change struct {
	Op      string // create, delete, set, check, get
	Slot    int
	Value   int   // created, set
	Version int32 // that is demanded; -1 is any
}

// A ZnodeStep is a request: one change, or several in one transaction.
type ZnodeStep []Change

// A ZnodeAnswer is what was answered.
type ZnodeAnswer struct {
	Unknown bool
	Code    zk.Code
	Value   int   // of a get
	Version int32 // of a get
}

type znode struct {
	exists  bool
	value   int
	version int32
}

// Znodes is a few znodes that are created, deleted, read and written.
var Znodes = porcupine.Model{
	Init: func() any { return [Slots]znode{} },
	Step: func(state, input, output any) (bool, any) {
		nodes, answer := state.([Slots]znode), output.(ZnodeAnswer)
		code, got := zk.OK, znode{}
		after := nodes
		for _, c := range input.(ZnodeStep) {
			code, got = c.do(&after)
			if code != zk.OK {
				after = nodes
				break
			}
		}
		switch {
		case answer.Unknown:
			return true, after
		case answer.Code != code:
			return false, nodes
		}
		return got == znode{} || got.value == answer.Value && got.version == answer.Version, after
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " ", output) },
}

// do carries out a change, and returns what a get sees.
func (c Change) do(nodes *[Slots]znode) (zk.Code, znode) {
	n := &nodes[c.Slot]
	switch {
	case c.Op == "create" && n.exists:
		return zk.ErrNodeExists, znode{}
	case c.Op == "create":
		*n = znode{exists: true, value: c.Value}
	case !n.exists:
		return zk.ErrNoNode, znode{}
	case c.Version >= 0 && c.Version != n.version:
		return zk.ErrBadVersion, znode{}
	case c.Op == "delete":
		*n = znode{}
	case c.Op == "set":
		n.value = c.Value
		n.version++
	case c.Op == "get":
		return zk.OK, *n
	}
	return zk.OK, znode{}
}

// A LockStep is a grant or the end of one.
type LockStep struct {
	Grant bool
	Token int64
}

// lock is a lock that one has at a time.
type lock struct {
	held    bool
	token   int64 // of the holder
	highest int64 // that was ever granted
}

// Lock is a lock service that grants to one at a time, with tokens that grow.
var Lock = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, input, _ any) (bool, any) {
		l, s := state.(lock), input.(LockStep)
		switch {
		case s.Grant && (l.held || s.Token <= l.highest), !s.Grant && (!l.held || l.token != s.Token):
			return false, l
		}
		l.held, l.token, l.highest = s.Grant, s.Token, max(l.highest, s.Token)
		return true, l
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
}
