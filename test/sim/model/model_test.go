package model

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/zk"
)

func TestZnodes(t *testing.T) {
	ok := ZnodeAnswer{}
	create := ZnodeStep{{Op: "create", Value: 7}}
	get := ZnodeStep{{Op: "get"}}
	for _, c := range []struct {
		name string
		want bool
		add  func(h *History)
	}{
		{"a value that was read is lost", false, func(h *History) {
			h.Add(create, 0, ok, 1)
			h.Add(get, 2, ZnodeAnswer{Value: 7}, 3)
			h.Add(get, 4, ZnodeAnswer{Code: zk.ErrNoNode}, 5)
		}},
		{"an unknown create happens late", true, func(h *History) {
			h.Add(create, 0, ZnodeAnswer{Unknown: true}, Never)
			h.Add(get, 2, ZnodeAnswer{Code: zk.ErrNoNode}, 3)
			h.Add(get, 4, ZnodeAnswer{Value: 7}, 5)
		}},
		{"an unknown create never happens", true, func(h *History) {
			h.Add(create, 0, ZnodeAnswer{Unknown: true}, Never)
			h.Add(get, 2, ZnodeAnswer{Code: zk.ErrNoNode}, 3)
		}},
		{"half of a transaction is seen", false, func(h *History) {
			h.Add(ZnodeStep{{Op: "create", Value: 7}, {Op: "create", Slot: 1, Value: 8}}, 0, ok, 1)
			h.Add(ZnodeStep{{Op: "get", Slot: 1}}, 2, ZnodeAnswer{Code: zk.ErrNoNode}, 3)
		}},
		{"two sets of one version succeed", false, func(h *History) {
			h.Add(create, 0, ok, 1)
			h.Add(ZnodeStep{{Op: "set", Value: 1}}, 2, ok, 4)
			h.Add(ZnodeStep{{Op: "set", Value: 2}}, 2, ok, 4)
		}},
	} {
		h := &History{}
		c.add(h)
		if got, _ := h.Explained(Znodes); got != c.want {
			t.Errorf("%s: explained = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLock(t *testing.T) {
	for _, c := range []struct {
		name string
		want bool
		add  func(h *History)
	}{
		{"one after the other", true, func(h *History) {
			h.Add(LockStep{true, 1}, 0, nil, 1)
			h.Add(LockStep{true, 2}, 0, nil, 6)
			h.Add(LockStep{false, 1}, 4, nil, 5)
		}},
		{"a grant before the end", false, func(h *History) {
			h.Add(LockStep{true, 1}, 0, nil, 1)
			h.Add(LockStep{true, 2}, 0, nil, 3)
			h.Add(LockStep{false, 1}, 4, nil, 5)
		}},
		{"a smaller token", false, func(h *History) {
			h.Add(LockStep{true, 2}, 0, nil, 1)
			h.Add(LockStep{false, 2}, 2, nil, 3)
			h.Add(LockStep{true, 1}, 4, nil, 5)
		}},
	} {
		h := &History{}
		c.add(h)
		if got, _ := h.Explained(Lock); got != c.want {
			t.Errorf("%s: explained = %v, want %v", c.name, got, c.want)
		}
	}
}
