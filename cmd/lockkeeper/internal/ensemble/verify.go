package ensemble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/fourletter"
)

const (
	// askTimeout is how long a member may take to answer one question.
	askTimeout = 5 * time.Second
	// askInterval is how often members are asked that are not ready yet.
	askInterval = 300 * time.Millisecond

	// rootTwice is what the count of Apache ZooKeeper is higher by: it counts the root as "" and as "/".
	rootTwice = 1

	epochShift = 32
)

// A Dialer connects to a member.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// A Report is what a member has said.
type Report struct {
	ID         int    `json:"id"`
	Address    string `json:"address"`
	Mode       string `json:"mode"`
	Zxid       string `json:"zxid"`
	Znodes     int    `json:"znodes"` // without the ephemeral ones
	Ephemerals int    `json:"ephemerals"`
	Problem    string `json:"problem,omitempty"`
}

// addresses returns where the members are asked, by their numbers: before clients are let in at the other ports.
func (p *Plan) addresses() map[int]string {
	closed := p.Closed
	if p.Open {
		closed = nil
	}
	all := map[int]string{}
	for _, m := range p.Spec.services(closed) {
		host, port := m.Host, m.Port
		if p.Spec.Format == FormatCompose {
			host, port = localPlaces, m.Published
		}
		all[m.ID] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return all
}

// Verify waits until all members have what the source had, and then writes the files with which clients are let in. If that
// is not so by the end of ctx, it changes nothing and says what is wrong.
func (p *Plan) Verify(ctx context.Context, dial Dialer) ([]Report, error) {
	if p.Open {
		return nil, errors.New("the ensemble was verified before, and clients may have changed it since (lockkeeper doctor looks at it)")
	}
	if err := p.sourceAsCopied(); err != nil {
		return nil, err
	}
	if err := p.Spec.Silent(ctx); err != nil {
		return nil, err
	}
	reports, err := p.await(ctx, dial)
	if err != nil {
		return reports, err
	}
	return reports, p.letIn()
}

// sourceAsCopied returns an error if the source has been written to since, or is in use. A source that is gone is no doubt.
func (p *Plan) sourceAsCopied() error {
	if _, err := os.Stat(p.Source.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := p.Source.lock()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return errors.Join(p.Source.stopped(), p.unchanged())
}

// await asks all members until nothing is wrong.
func (p *Plan) await(ctx context.Context, dial Dialer) (reports []Report, err error) {
	for {
		now := p.askAll(ctx, dial)
		if reports == nil || ctx.Err() == nil { // not what was asked while time ran out
			reports = now
			err = p.judge(now)
		}
		if err == nil {
			return reports, nil
		}
		select {
		case <-time.After(askInterval):
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				return nil, cause // a member has ended, or the user has ended the command
			}
			return reports, err
		}
	}
}

// judge returns what is wrong with what members have said, on one line.
func (p *Plan) judge(reports []Report) error {
	var wrong []string
	leaders, zxids := 0, map[int64]bool{}
	for _, r := range reports {
		if r.Problem != "" {
			wrong = append(wrong, fmt.Sprintf("member %d (%s): %s", r.ID, r.Address, r.Problem))
			continue
		}
		if r.Mode == "leader" {
			leaders++
		}
		zxid, _ := strconv.ParseInt(strings.TrimPrefix(r.Zxid, "0x"), 16, 64) // ask has read it
		zxids[zxid>>epochShift] = true
	}
	switch {
	case wrong != nil:
		return errors.New(strings.Join(wrong, "; "))
	case leaders != 1:
		return fmt.Errorf("%d of the members lead", leaders)
	case len(zxids) != 1:
		return errors.New("the members have zxids of different epochs")
	}
	return nil
}

func (p *Plan) askAll(ctx context.Context, dial Dialer) []Report {
	addresses := p.addresses()
	reports := make([]Report, len(p.Spec.Members))
	var all sync.WaitGroup
	for i, m := range p.Spec.Members {
		all.Go(func() {
			r := Report{ID: m.ID, Address: addresses[m.ID]}
			ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer within %v", askTimeout))
			defer cancel()
			if err := p.ask(ctx, dial, &r); err != nil {
				r.Problem = err.Error()
			}
			reports[i] = r
		})
	}
	all.Wait()
	return reports
}

// ask asks one member.
func (p *Plan) ask(ctx context.Context, dial Dialer, r *Report) error {
	status, err := fourletter.Ask(ctx, dial, "tcp", r.Address)
	if err != nil {
		return err
	}
	r.Mode, r.Zxid = status.Mode, status.Zxid
	if r.Mode != "leader" && r.Mode != "follower" {
		return fmt.Errorf("its mode is %s, not leader or follower: it does not run with the zoo.cfg of this ensemble", r.Mode)
	}
	zxid, err := strconv.ParseInt(strings.TrimPrefix(r.Zxid, "0x"), 16, 64)
	if err != nil {
		return fmt.Errorf("its zxid is %q", r.Zxid)
	}
	if zxid < p.Content.Zxid || zxid>>epochShift <= p.Content.Zxid>>epochShift {
		return fmt.Errorf("its zxid %s is not behind that of the source, 0x%x: it has other data", r.Zxid, p.Content.Zxid)
	}
	conf, err := fourletter.Word(ctx, dial, "tcp", r.Address, "conf")
	if err != nil {
		return fmt.Errorf("conf: %w", err)
	}
	if id, ok := value(conf, "serverId", "="); ok && id != strconv.Itoa(r.ID) {
		return fmt.Errorf("it is member %s: its myid, or its address in zoo.cfg, is wrong", id)
	}
	mntr, err := fourletter.Word(ctx, dial, "tcp", r.Address, "mntr")
	if err != nil {
		return fmt.Errorf("mntr: %w", err)
	}
	count := func(name string) (n int) {
		text, ok := value(mntr, name, "\t")
		n, bad := strconv.Atoi(text)
		if !ok || bad != nil {
			err = fmt.Errorf("mntr: %s is %q", name, text)
		}
		return n
	}
	r.Ephemerals = count("zk_ephemerals_count")
	r.Znodes = count("zk_znode_count") - rootTwice - r.Ephemerals
	if err != nil {
		return err
	}
	most := p.Content.Znodes - p.Content.Ephemerals
	if least := most - p.Content.Passing; r.Znodes < least || r.Znodes > most {
		return fmt.Errorf("it has %d znodes that are not ephemeral, and the source had %d: it has other data", r.Znodes, most)
	}
	if r.Ephemerals > p.Content.Ephemerals {
		return fmt.Errorf("it has %d ephemeral znodes, and the source had %d: it has other data", r.Ephemerals, p.Content.Ephemerals)
	}
	return p.askNewest(ctx, dial, r.Address)
}

// askNewest looks at the znode that was written last. Counts alone could be right by chance.
func (p *Plan) askNewest(ctx context.Context, dial Dialer, address string) error {
	s, err := client.Open(ctx, address, client.Options{Dial: dial})
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	stat, ok, err := s.Exists(ctx, p.Content.Newest)
	if err != nil {
		return err
	}
	if !ok || stat.Mzxid != p.Content.NewestZxid {
		return fmt.Errorf("%s is not as transaction 0x%x of the source has left it: it has other data", p.Content.Newest, p.Content.NewestZxid)
	}
	return nil
}

// value returns the value of a name in lines of names and values.
func value(text, name, separator string) (string, bool) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+separator); ok {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

// checkHome refuses a member's directory on this machine that is not as Grow has left it: with another number, or without data.
func (p *Plan) checkHome(ctx context.Context, m Member) error {
	data := filepath.Join(p.Spec.Out, m.Folder(), "data")
	text, err := os.ReadFile(filepath.Join(data, myidName))
	if err != nil {
		return err
	}
	if id := strings.TrimSpace(string(text)); id != strconv.Itoa(m.ID) {
		return fmt.Errorf("%s says %q, and this is member %d", filepath.Join(data, myidName), id, m.ID)
	}
	if _, err := os.Lstat(filepath.Join(data, initializeName)); err == nil {
		return fmt.Errorf("%s: this member has data, and must not begin without (remove the file)", filepath.Join(data, initializeName))
	}
	if p.Open {
		return nil // it has what clients have written since, or gets it from the others
	}
	got, err := Source{Dir: data}.read(ctx)
	if err != nil {
		return fmt.Errorf("member %d: %w", m.ID, err)
	}
	if got.Zxid < p.Content.Zxid {
		return fmt.Errorf("member %d: %s ends at zxid 0x%x, and the source at 0x%x: its data is not whole (remove %s, and begin again)", m.ID, data, got.Zxid, p.Content.Zxid, p.Spec.Out)
	}
	return nil
}

// mode returns the mode that a member says it has; empty for none.
func mode(ctx context.Context, dial Dialer, address string) string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	status, err := fourletter.Ask(ctx, dial, "tcp", address)
	if err != nil {
		return ""
	}
	return status.Mode
}
