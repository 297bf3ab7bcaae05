package ensemble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/server/store"
)

// Growing has three steps, so that no order of starts can lose data.
//
//  1. Grow copies the data of the stopped server to all members before any of them starts, and reads each copy again. The copies
//     have the same last transaction, so each member may lead; a member without its copy takes part in no election.
//  2. The members start with another port for clients, which no client knows. Verify asks each of them there: one leader, the others
//     follow, the same number of znodes as the source, and the znode that was written last. This finds what copying to other machines
//     may spoil: two members that lack the end of a log would form a quorum, and the third would give up what it has more.
//  3. Only then Verify writes zoo.cfg with the port for clients, and the members are restarted with it, in any order.
//
// The plainest design would let clients in at once and count afterwards. It was not taken, for clients come back within
// a second, and what they write to an ensemble that lacks data cannot be brought together with the data.

// A Plan is an ensemble that grows. It is kept in the file grow.json beside the members.
type Plan struct {
	Spec    Spec        `json:"spec"`
	Source  Source      `json:"source"`
	Content Content     `json:"content"`
	Parts   []PlanPart  `json:"parts"`  // files of the source, as they were copied
	Closed  map[int]int `json:"closed"` // the other ports for clients, by the members' numbers
	Open    bool        `json:"open"`   // clients may be let in
}

// A PlanPart is a file of the source.
type PlanPart struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

const (
	planName = "grow.json"

	// closedOffset is how far the other port for clients is from the right one.
	closedOffset = 10000

	// stagePrefix begins the name of a directory that is not finished, beside the one that it will be.
	stagePrefix = ".lockkeeper-grow-"
)

// closedPorts returns the other ports for clients.
func (s *Spec) closedPorts() (map[int]int, error) {
	closed := map[int]int{}
	with := slices.Clone(s.Members)
	for i, m := range s.Members {
		port := m.Client + closedOffset
		if port > portMax {
			port = m.Client - closedOffset
		}
		closed[m.ID], with[i].Client = port, port
	}
	if err := checkMembers(with, s.together()); err != nil {
		return nil, fmt.Errorf("while the ensemble is checked, clients' ports are %d higher: %w", closedOffset, err)
	}
	return closed, nil
}

// Grow copies a source to the members of an ensemble, which is written like one of Init. Nothing may be in the
// directory s.Out. An error leaves nothing there, nor does the end of ctx. note is told what a person should know.
func Grow(ctx context.Context, s *Spec, src Source, note func(string)) (*Plan, error) {
	closed, err := s.closedPorts()
	if err != nil {
		return nil, err
	}
	if err := Empty(s.Out); err != nil {
		return nil, err
	}
	if s.Format == FormatSystemd && filepath.Clean(s.DataDir) == filepath.Clean(src.Dir) {
		return nil, fmt.Errorf("%s is the source, and would be a member's data directory, too (name another one with --data-dir, as in --data-dir %s-ensemble)", src.Dir, s.DataDir)
	}
	if _, err := src.parts(); err != nil {
		return nil, err
	}
	unlock, err := src.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := src.stopped(); err != nil {
		return nil, err
	}
	parts, err := src.parts()
	if err != nil {
		return nil, err
	}
	p := &Plan{Spec: *s, Source: src, Closed: closed}
	if p.Content, err = src.read(ctx); err != nil {
		return nil, err
	}
	note(fmt.Sprintf("%s holds %v", src.Dir, p.Content))
	if err := p.keepTimed(note); err != nil {
		return nil, err
	}
	if p.Content.Cut > 0 {
		note(fmt.Sprintf("the newest log breaks off in a transaction: %d bytes are left out. A crash leaves that, and nothing in it was acknowledged; so does a directory that was copied in part, which lacks data", p.Content.Cut))
	}
	if src.member() {
		note("the source was a member of an ensemble: another member may have more, so take the directory of the last leader")
	}
	if src.ours() && p.Content.Sessions > 0 {
		note(fmt.Sprintf("the sessions of clients end with the move (%d), unless the server ran with lockkeeper.apachePasswords=true before it was stopped", p.Content.Sessions))
	}
	if err := makeWay(s.Out); err != nil {
		return nil, err
	}
	stage := s.stage()
	if err := os.RemoveAll(stage); err != nil { // of a run that was killed
		return nil, err
	}
	if err := p.stage(ctx, stage, parts); err != nil {
		return nil, errors.Join(fmt.Errorf("nothing was left in %s: %w", s.Out, err), os.RemoveAll(stage))
	}
	if err := errors.Join(src.stopped(), p.unchanged()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(stage))
	}
	if err := os.Rename(stage, s.Out); err != nil {
		return nil, errors.Join(err, os.RemoveAll(stage))
	}
	return p, syncDir(filepath.Dir(s.Out))
}

// stage is the directory in which the ensemble is made.
func (s *Spec) stage() string {
	return filepath.Join(filepath.Dir(s.Out), stagePrefix+filepath.Base(s.Out))
}

// makeWay removes an empty directory, whose place another one is to take. A mount point and a link have to stay: the copies would be made
// on another disk.
func makeWay(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.Mode().Type() == fs.ModeSymlink:
		return fmt.Errorf("%s is a link (name a new directory in it)", dir)
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("%w (name a new directory in it)", err)
	}
	return nil
}

// timedKey is the setting without which Apache ZooKeeper takes znodes with a time to live for ephemerals of sessions that are over:
// a leader deletes them when it starts, without telling the others.
const timedKey = "extendedTypesEnabled"

// keepTimed turns that setting on if the source needs it.
func (p *Plan) keepTimed(note func(string)) error {
	if p.Content.Timed == 0 {
		return nil
	}
	for _, kv := range slices.Backward(p.Spec.Set) { // the last one counts
		if kv[0] != timedKey {
			continue
		}
		if !strings.EqualFold(kv[1], "true") {
			return fmt.Errorf("--set %s=%s: the source has %d znodes with a time to live, which the members would delete at once (leave the setting out)", kv[0], kv[1], p.Content.Timed)
		}
		return nil
	}
	note(fmt.Sprintf("%d znodes have a time to live: the members get %s=true, without which they would delete them", p.Content.Timed, timedKey))
	p.Spec.Set = append(slices.Clone(p.Spec.Set), [2]string{timedKey, "true"})
	return nil
}

// Empty refuses a directory with something in it.
func Empty(dir string) error {
	all, err := names(dir)
	switch {
	case err != nil:
		return err
	case slices.Contains(all, planName):
		if p, err := LoadPlan(dir); err == nil && p.Open {
			return fmt.Errorf("%s holds an ensemble that has grown, and has the data of its clients (name another directory)", dir)
		}
		return fmt.Errorf("%s holds an ensemble that has grown (go on with --verify; to begin again, remove the directory)", dir)
	case len(all) > 0:
		return fmt.Errorf("%s is not empty: it has %s (name a new directory)", dir, all[0])
	}
	return nil
}

// stage writes all files of the ensemble into a directory, and reads the copies of the data.
func (p *Plan) stage(ctx context.Context, dir string, parts []store.Part) error {
	var bytes int64
	for _, part := range parts {
		p.Parts = append(p.Parts, PlanPart{part.Path, part.Bytes})
		bytes += part.Bytes
	}
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	if err := enoughSpace(dir, bytes*int64(len(p.Spec.Members))); err != nil {
		return err
	}
	files, err := p.Spec.files(p.Closed)
	if err != nil {
		return err
	}
	for _, m := range p.Spec.Members {
		files = append(files, p.Spec.myid(m))
	}
	for i := range files {
		files[i].path = dir + strings.TrimPrefix(files[i].path, p.Spec.Out)
	}
	if _, err := writeAll(dir, files); err != nil {
		return err
	}
	var members []string
	for _, m := range p.Spec.Members {
		members = append(members, filepath.Join(dir, m.Folder()))
	}
	sums, err := copyData(ctx, parts, members)
	if err != nil {
		return err
	}
	for _, member := range members {
		if err := writeFile(file{path: filepath.Join(member, sumsName), mode: publicMode, data: sums}); err != nil {
			return err
		}
		got, err := Source{Dir: filepath.Join(member, "data")}.read(ctx)
		if err != nil {
			return fmt.Errorf("the copy cannot be read: %w", err)
		}
		want := p.Content
		want.Cut = 0
		if got != want {
			return fmt.Errorf("the copy in %s holds %v, and the source %v", member, got, p.Content)
		}
	}
	return p.save(dir)
}

// unchanged returns an error if a server has written to the source since it was copied.
func (p *Plan) unchanged() error {
	parts, err := p.Source.parts()
	if err != nil {
		return err
	}
	var now []PlanPart
	for _, part := range parts {
		now = append(now, PlanPart{part.Path, part.Bytes})
	}
	if !slices.Equal(now, p.Parts) {
		return fmt.Errorf("%s: a server has written to it since it was copied (stop the server, remove %s, and begin again)", p.Source.Dir, p.Spec.Out)
	}
	return nil
}

// save writes the plan into a directory.
func (p *Plan) save(dir string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(file{path: filepath.Join(dir, planName), mode: publicMode, data: append(text, '\n')})
}

// LoadPlan reads the plan from the directory that Grow has written.
func LoadPlan(dir string) (*Plan, error) {
	path := filepath.Join(dir, planName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no ensemble that has grown (grow --from DIR makes one)", dir)
	}
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if p.Spec.Out != dir {
		return nil, fmt.Errorf("%s was made for %s: move it back", path, p.Spec.Out)
	}
	if err := p.Spec.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, m := range p.Spec.Members {
		if p.Closed[m.ID] == 0 {
			return nil, fmt.Errorf("%s: member %d has no port for the check", path, m.ID)
		}
	}
	return p, nil
}

// letIn writes zoo.cfg with the right ports for clients. It is the only step that replaces files, which are those of step 1.
func (p *Plan) letIn() error {
	files, err := p.Spec.files(nil)
	if err != nil {
		return err
	}
	for _, f := range files {
		base := filepath.Base(f.path)
		if base != "zoo.cfg" && base != "compose.yaml" {
			continue
		}
		if err := writeFile(f); err != nil {
			return err
		}
	}
	p.Open = true
	return p.save(p.Spec.Out)
}
