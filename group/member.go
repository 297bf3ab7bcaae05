package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/presence"
	"github.com/lockkeeper/lockkeeper/zk"
)

// JoinOptions configure a Member. The zero value of every field means its default.
type JoinOptions struct {
	// ACL is the access control list of the member's znode, ParentACL that of the group's znode and of those above it,
	// where they have to be made. Default: every client may do anything.
	ACL, ParentACL []zk.ACL

	// TakeOver takes the place of the session that has a member of the same id when Join is called. One that comes later is
	// waited for. Default: Join waits until that session has ended, which it does some time after its process has died. A
	// member of the same Keeper is always waited for.
	TakeOver bool

	// CloseTimeout bounds Member.Close besides its context. Default 5 s.
	CloseTimeout time.Duration

	// Logger gets a line for whatever an operator should know. Default: silent.
	Logger *slog.Logger
}

// ErrTaken is returned when another session owns the znode of the id. The error is a *TakenError.
var ErrTaken = errors.New("the id is in use")

// A TakenError says that the id is in use: another session owns the znode.
type TakenError struct {
	Path  string
	Owner int64 // id of the session; 0 if the znode is not ephemeral
}

func (e *TakenError) Error() string {
	if e.Owner == 0 {
		return fmt.Sprintf("%s is there and not ephemeral (delete it)", e.Path)
	}
	return fmt.Sprintf("%s belongs to session 0x%x (it goes with that session)", e.Path, uint64(e.Owner))
}

// Is makes errors.Is(err, ErrTaken) hold.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

// A State is what is true of a member at one moment.
type State struct {
	Present bool  // the member's znode is there, as far as is known; false once no server could be reached for the session timeout
	Err     error // why it is not; nil if it is
}

// A Member is a member of a group, until Close. It is safe for use by many goroutines.
type Member struct {
	id string
	p  *presence.Presence
}

// Join makes id a member of the group at path, with data for others to read, and returns once it is one. An id that is 32 hexadecimal
// digits, "-" and more is shown as what is behind the "-", since kazoo's names are so; see the package's formats. ctx bounds
// that only. If the id is in use for as long as ctx lasts, errors.As finds a *TakenError. Close must be called.
func Join(ctx context.Context, k *client.Keeper, path, id string, data []byte, opt JoinOptions) (*Member, error) {
	node := zk.Join(path, id)
	if err := validID(path, id); err != nil {
		return nil, &client.OpError{Op: "join", Path: node, Err: err}
	}
	p, err := presence.Keep(ctx, k, node, data, presence.Options{Op: "join",
		Taken: func(path string, owner int64) error { return &TakenError{path, owner} }, ACL: opt.ACL, ParentACL: opt.ParentACL,
		TakeOver: opt.TakeOver, CloseTimeout: opt.CloseTimeout, Logger: opt.Logger})
	if err != nil {
		return nil, err
	}
	return &Member{id, p}, nil
}

// validID refuses an id that is not the name of a znode.
func validID(path, id string) error {
	if err := zk.ValidatePath(path); err != nil {
		return err
	}
	if id == "" || strings.Contains(id, "/") {
		return &zk.PathError{Path: zk.Join(path, id), Reason: "has an id that is empty or contains a slash"}
	}
	return zk.ValidatePath(zk.Join(path, id))
}

// ID returns the member's id.
func (m *Member) ID() string { return m.id }

// Path returns the path of the member's znode.
func (m *Member) Path() string { return m.p.Path() }

// Set changes the member's data, and returns once its znode has it. If ctx ends first, the znode gets it all the same,
// unless Set is called again. Data that the server refuses is an error, and the znode keeps what it had.
func (m *Member) Set(ctx context.Context, data []byte) error { return m.p.Set(ctx, data) }

// State returns the state of the member, and a channel that is closed when that may have passed.
func (m *Member) State() (State, <-chan struct{}) {
	st, changed := m.p.State()
	return State(st), changed
}

// Done is closed when the member does not come back any more: after Close, after that of the Keeper, or because the
// server refuses it.
func (m *Member) Done() <-chan struct{} { return m.p.Done() }

// Err returns nil until Done is closed, and then why the member does not come back.
func (m *Member) Err() error { return m.p.Err() }

// Close leaves the group. A nil error says that the znode is gone and does not come back. With an error, it is removed in
// the background, and goes with the session at the latest. After the Close of the Keeper, which takes the znode along, the error is
// zk.ErrClosed: close the member first.
func (m *Member) Close(ctx context.Context) error { return m.p.Close(ctx) }
