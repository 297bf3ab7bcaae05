package script

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Dump returns all that a super user can see of every znode, parents first, a line for each: path,
// data, ACL and the whole stat, in which the counter for sequential names is hidden as well.
func (p *Player) Dump() ([]string, error) { return p.dump(nil, "/") }

func (p *Player) dump(lines []string, path string) ([]string, error) {
	_, d, err := p.control.ask("getData", path)
	if err != nil {
		return nil, err
	}
	content, stat := data(d.Buffer()), d.Stat()
	_, d, err = p.control.ask("getACL", path)
	if err != nil {
		return nil, err
	}
	lines = append(lines, fmt.Sprintf("%s %s %s %+v", path, content, acls(d.ACL(), true), stat))
	names, err := p.children(path)
	for _, name := range names {
		if lines, err = p.dump(lines, zk.Join(path, name)); err != nil {
			break
		}
	}
	return lines, err
}

// children returns the names of the children of a znode, sorted.
func (p *Player) children(path string) ([]string, error) {
	_, d, err := p.control.ask("getChildren", path)
	if err != nil {
		return nil, err
	}
	return sorted(d.Strings()), nil
}

// NextNames creates a sequential znode below every znode that may have children, deletes it again,
// and returns their names.
func (p *Player) NextNames() ([]string, error) { return p.nextNames(nil, "/") }

func (p *Player) nextNames(made []string, path string) ([]string, error) {
	names, err := p.children(path)
	if err != nil {
		return nil, err
	}
	_, d, err := p.control.ask("create", zk.Join(path, "next-"), "", "open", "2")
	switch {
	case err == nil:
		name := new(wire.PathRecord)
		name.DecodeFrom(d)
		made = append(made, name.Path)
		if _, _, err := p.control.ask("delete", name.Path, "-1"); err != nil {
			return nil, err
		}
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		made = append(made, path+": none")
		err = nil
	default:
		return nil, err
	}
	for _, name := range names {
		if made, err = p.nextNames(made, zk.Join(path, name)); err != nil {
			break
		}
	}
	return made, err
}
