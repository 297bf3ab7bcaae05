package discovery

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/internal/presence"
	"github.com/lockkeeper/lockkeeper/zk"
)

// RegisterOptions configure what is registered or published. The zero value of every field means its default.
type RegisterOptions struct {
	// TakeOver takes the place of the session that has an instance of the same id when Register is called. One that comes
	// later is waited for. Default: Register waits until that session has ended, which it does some time after its process
	// has died.
	TakeOver bool

	// ACL is the access control list of the instance's znode, ParentACL that of the znodes above it, where they have to
	// be made. Default: every client may do anything.
	ACL, ParentACL []zk.ACL

	// CloseTimeout bounds Registration.Close besides its context. Default 5 s.
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

// A Registration keeps an instance registered until Close. It is safe for use by many goroutines.
type Registration struct {
	base string
	inst Instance // as it was registered
	p    *presence.Presence
}

// Register registers an instance below base and returns once it is. An empty ID becomes a random UUID, a zero Registered
// the present time. An instance without an Address is refused; one without any port is not, and clients that would dial it get an
// error. If the id is in use for as long as ctx lasts, errors.As finds a *TakenError. ctx bounds the registration only. Close
// must be called.
func Register(ctx context.Context, k *client.Keeper, base string, i Instance, opt RegisterOptions) (*Registration, error) {
	i, path, err := dynamic(base, i)
	if err != nil {
		return nil, err
	}
	p, err := presence.Keep(ctx, k, path, i.Encode(), opt.presence())
	if err != nil {
		return nil, err
	}
	return &Registration{base, i, p}, nil
}

// dynamic returns an instance as it is registered, and the path of its znode, and refuses what cannot be registered.
func dynamic(base string, i Instance) (_ Instance, path string, err error) {
	i = i.withDefaults(Dynamic)
	path, err = writable(base, i)
	if err == nil && i.Type != Dynamic {
		err = fmt.Errorf("an instance of type %s cannot be registered (Publish writes static ones)", i.Type)
	}
	if err != nil {
		return i, path, &client.OpError{Op: "register", Path: path, Err: err}
	}
	return i, path, nil
}

// presence returns the options of an instance's znode.
func (o RegisterOptions) presence() presence.Options {
	return presence.Options{Op: "register", Container: true,
		Taken: func(path string, owner int64) error { return &TakenError{path, owner} },
		ACL:   o.ACL, ParentACL: o.ParentACL, TakeOver: o.TakeOver, CloseTimeout: o.CloseTimeout, Logger: o.Logger}
}

// withDefaults fills in what the caller left out.
func (i Instance) withDefaults(t Type) Instance {
	if i.ID == "" {
		var b [16]byte
		rand.Read(b[:])                             // never fails
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // RFC 9562, version 4
		i.ID = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	if i.Registered.IsZero() {
		i.Registered = time.Now()
	}
	if i.Type == "" {
		i.Type = t
	}
	return i
}

// instancePath returns the path of an instance's znode, and refuses what is none.
func instancePath(base string, i Instance) (string, error) {
	path := zk.Join(zk.Join(base, i.Name), i.ID)
	for _, name := range []string{i.Name, i.ID} {
		if name == "" || strings.Contains(name, "/") {
			return path, &zk.PathError{Path: path, Reason: fmt.Sprintf("has a name or id, %q, that is empty or contains a slash", name)}
		}
	}
	if err := zk.ValidatePath(base); err != nil {
		return path, err
	}
	return path, zk.ValidatePath(path)
}

// writable is instancePath, and refuses what should not be written.
func writable(base string, i Instance) (string, error) {
	path, err := instancePath(base, i)
	if err != nil {
		return path, err
	}
	if i.Address == "" {
		return path, errors.New("the instance has no address, by which clients could reach it")
	}
	if strings.HasPrefix(i.Address, "[") {
		return path, fmt.Errorf("address %s: an IPv6 address is written without brackets", i.Address)
	}
	for _, p := range []int{i.Port, i.SSLPort} {
		if p < 0 || p > 65535 {
			return path, fmt.Errorf("port %d is out of range", p)
		}
	}
	if i.Payload != nil && !json.Valid(i.Payload) {
		return path, fmt.Errorf("the payload is no JSON: %.40q", i.Payload)
	}
	return path, nil
}

// Publish writes an instance that stays when the session ends, of type Static unless Permanent is set. What it fills in and
// refuses is as for Register. One with the same id is replaced, unless it was registered: then the error is a *TakenError. One that is
// registered while another is being replaced may be written over, until it is registered again or set.
func Publish(ctx context.Context, k *client.Keeper, base string, i Instance, opt RegisterOptions) error {
	i = i.withDefaults(Static)
	path, err := writable(base, i)
	if err == nil && i.Type != Static && i.Type != Permanent {
		err = fmt.Errorf("an instance of type %s cannot be published (Register writes dynamic ones)", i.Type)
	}
	if err != nil {
		return &client.OpError{Op: "publish", Path: path, Err: err}
	}
	return change(ctx, k, "publish", path, func(ctx context.Context, s *client.Session, stat zk.Stat, there bool) error {
		if there {
			stat, err := s.Set(ctx, path, i.Encode(), stat.Version)
			switch {
			case err == nil && stat.EphemeralOwner != 0: // it has come into the place of the other one meanwhile
				err = &TakenError{path, stat.EphemeralOwner}
			case errors.Is(err, zk.ErrNoAuth):
				data, stat, lookErr := s.Get(ctx, path)
				if lookErr == nil && stat.EphemeralOwner == 0 && bytes.Equal(data, i.Encode()) {
					err = nil // it was created so, perhaps by this call, when the answer was lost
				}
			}
			return err
		}
		if err := presence.MakeParents(ctx, s, path, opt.presence()); err != nil {
			return err
		}
		_, err := s.Create(ctx, path, i.Encode(), zk.Persistent, opt.ACL)
		if errors.Is(err, zk.ErrNoNode) {
			return errChanged // what was made above is gone again
		}
		return err
	})
}

// Unpublish deletes an instance that Publish has written. One that is missing is success. One that was registered stays,
// and the error is a *TakenError.
func Unpublish(ctx context.Context, k *client.Keeper, base, name, id string) error {
	path, err := instancePath(base, Instance{Name: name, ID: id})
	if err != nil {
		return &client.OpError{Op: "unpublish", Path: path, Err: err}
	}
	awaited := false
	return change(ctx, k, "unpublish", path, func(ctx context.Context, s *client.Session, stat zk.Stat, there bool) error {
		switch {
		case there:
			return s.Delete(ctx, path, stat.Version)
		case awaited:
			return nil
		}
		awaited = true // an earlier create may still be on its way
		if err := s.AwaitWrites(ctx); err != nil {
			return err
		}
		return errChanged
	})
}

// change looks at the znode of an instance and calls write with what is there, again and again while others are quicker and answers
// are lost. It leaves ephemeral znodes alone.
func change(ctx context.Context, k *client.Keeper, op, path string, write func(context.Context, *client.Session, zk.Stat, bool) error) error {
	if err := operr.NoKeeper(op, path, k); err != nil {
		return err
	}
	doubt := false
	err := k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		for {
			if err := s.Sync(ctx, path); err != nil {
				return err
			}
			stat, there, err := s.Exists(ctx, path)
			switch {
			case err != nil:
				return err
			case stat.EphemeralOwner != 0:
				return &TakenError{path, stat.EphemeralOwner}
			}
			err = write(ctx, s, stat, there)
			doubt = doubt || client.MaybeApplied(err)
			switch {
			case errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || err == errChanged:
			case there && errors.Is(err, zk.ErrNoNode):
			default:
				return err
			}
		}
	})
	if err == nil {
		return nil
	}
	return operr.Wrap(op, path, err, doubt)
}

// errChanged says that what was looked at is not so any more.
var errChanged = errors.New("changed meanwhile")

// Instance returns the instance as it was registered.
func (r *Registration) Instance() Instance { return r.inst }

// Path returns the path of the instance's znode.
func (r *Registration) Path() string { return r.p.Path() }

// Set changes what others read of the instance, except its name, id, type and time of registration, which stay. It
// returns once the znode has it. What the server refuses is an error, and the instance stays as it was.
func (r *Registration) Set(ctx context.Context, i Instance) error {
	i.Name, i.ID, i.Type, i.Registered = r.inst.Name, r.inst.ID, r.inst.Type, r.inst.Registered
	if path, err := writable(r.base, i); err != nil {
		return &client.OpError{Op: "set", Path: path, Err: err}
	}
	return r.p.Set(ctx, i.Encode())
}

// A State is what is true of a registration at one moment.
type State struct {
	Present bool  // the instance's znode is there, as far as is known; false once no server could be reached for the session timeout
	Err     error // why it is not; nil if it is
}

// State returns the state of the registration, and a channel that is closed when that may have passed.
func (r *Registration) State() (State, <-chan struct{}) {
	st, changed := r.p.State()
	return State(st), changed
}

// Done is closed when the instance does not come back any more: after Close, after that of the Keeper, or because the
// server refuses it.
func (r *Registration) Done() <-chan struct{} { return r.p.Done() }

// Err returns nil until Done is closed, and then why the instance does not come back.
func (r *Registration) Err() error { return r.p.Err() }

// Close ends the registration. A nil error says that the znode is gone and does not come back. With an error, it is
// removed in the background, and goes with the session at the latest. After the Close of the Keeper, which takes the znode along, the
// error is zk.ErrClosed: close the registration first.
func (r *Registration) Close(ctx context.Context) error { return r.p.Close(ctx) }
