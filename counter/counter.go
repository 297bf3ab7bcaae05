// Package counter is a number in a znode that many clients change.
//
//	c, err := counter.New(keeper, "/limits/used", counter.Options{})
//	value, err := c.Add(ctx, 1)
//
// # Guarantees
//
// A change is made once or not at all, never twice. If the answer to a change is lost, the counter looks: a change that
// was certainly not made is made again; otherwise the error says that the outcome is unknown (client.MaybeApplied is
// true of it), unless Options.Exact is set, which makes every outcome known as long as the session and the call's context live.
//
// # Formats
//
//	Int64      8 bytes, big-endian: Curator's DistributedAtomicLong; an absent or empty znode is 0
//	Int32      4 bytes, big-endian: Curator's SharedCount and DistributedAtomicInteger, kazoo's Counter with support_curator
//	Decimal    ASCII digits: kazoo's Counter; an empty znode is 0
//
// # Limits
//
// Each change is a read and a write, and clients that change a counter at the same time try again: a counter is for some
// hundred changes a second. A value that does not fit the format is refused with an *OverflowError, and the counter stays.
package counter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Format is how the number is written.
type Format int

// The formats; see the package's comment.
const (
	Int64 Format = iota
	Int32
	Decimal
)

func (f Format) String() string {
	switch f {
	case Int64:
		return "int64"
	case Int32:
		return "int32"
	case Decimal:
		return "decimal"
	}
	return "unknown"
}

// Options configure a Counter. The zero value of every field means its default.
type Options struct {
	// Format is how the number is written. All clients of a counter must agree. Default: Int64.
	Format Format

	// Initial is the value of a counter that is not there, or is empty. Default 0.
	Initial int64

	// Exact makes the outcome of a change known when its answer was lost, as long as the session and the call's context live. It costs an
	// ephemeral znode below the counter and a goroutine for each session that changes it, and a larger write for each change. While
	// such a session lives, the counter cannot be deleted. Default: such an outcome can be unknown.
	Exact bool

	// ACL is the access control list of znodes that are made. Default: every client may do anything.
	ACL []zk.ACL
}

// A FormatError says that the znode holds something else than a number of the format.
type FormatError struct {
	Format Format
	Data   []byte
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%d bytes %.40q are no %v number (is the format of the options right?)", len(e.Data), e.Data, e.Format)
}

// ErrOverflow is returned when a value does not fit the format. The error is an *OverflowError.
var ErrOverflow = errors.New("the number does not fit the format")

// An OverflowError says that a value does not fit the format.
type OverflowError struct {
	Format Format
	Value  int64 // the value before the change; 0 if that does not matter, as for Set
	Delta  int64 // what is added to it
}

func (e *OverflowError) Error() string {
	return fmt.Sprintf("%d plus %d does not fit %v", e.Value, e.Delta, e.Format)
}

// Is makes errors.Is(err, ErrOverflow) hold.
func (e *OverflowError) Is(target error) bool { return target == ErrOverflow }

// A Value is a counter's number at one moment.
type Value struct {
	Number int64
	Stat   zk.Stat // zero if the counter was not there, and after a change whose answer was lost
}

// A Counter is a number in a znode. It is safe for use by many goroutines. A change makes a znode that is missing, with Options.Initial,
// before it looks at the value: also one that then fails.
type Counter struct {
	k    *client.Keeper
	path string
	opt  Options
}

// New returns the counter at path. It asks the server nothing.
func New(k *client.Keeper, path string, opt Options) (*Counter, error) {
	if err := operr.NoKeeper("counter", path, k); err != nil {
		return nil, err
	}
	err := zk.ValidatePath(path)
	switch {
	case err != nil:
	case path == "/":
		err = &zk.PathError{Path: path, Reason: "is the root, which cannot be a counter"}
	case opt.Format < Int64 || opt.Format > Decimal:
		err = fmt.Errorf("option Format: %d is none of the formats", int(opt.Format))
	case opt.Format == Int32 && (opt.Initial > math.MaxInt32 || opt.Initial < math.MinInt32):
		err = &OverflowError{opt.Format, 0, opt.Initial}
	}
	if err != nil {
		return nil, &client.OpError{Op: "counter", Path: path, Err: err}
	}
	return &Counter{k, path, opt}, nil
}

// Path returns the path of the counter's znode.
func (c *Counter) Path() string { return c.path }

// Get returns the value that the server we are connected to has; it may be behind the leader.
func (c *Counter) Get(ctx context.Context) (Value, error) {
	var v Value
	err := c.k.Run(ctx, func(ctx context.Context, s *client.Session) (err error) {
		v, err = c.read(ctx, s)
		return err
	})
	if err != nil {
		return Value{}, c.opError("get", err)
	}
	return v, nil
}

// Add adds delta, which may be negative, and returns the new value.
func (c *Counter) Add(ctx context.Context, delta int64) (Value, error) {
	return c.change(ctx, "add", func(old int64) (int64, error) {
		next := old + delta
		if (next < old) != (delta < 0) || c.opt.Format == Int32 && int64(int32(next)) != next {
			return 0, &OverflowError{c.opt.Format, old, delta}
		}
		return next, nil
	})
}

// Set sets the value, whatever number it was. If the znode holds none, the error is a *FormatError, as with the others.
func (c *Counter) Set(ctx context.Context, number int64) (Value, error) {
	return c.change(ctx, "set", func(int64) (int64, error) { return c.checkFits(number) })
}

// Update replaces the value by what change makes of it. change is called again if another client was quicker, and after a sync
// if it has returned an error, since the value may have been an old one: so it must depend on nothing but the old value and
// what stays the same; it must not use the counter itself. If it returns an error then too, the value stays as it is, and errors.Is finds
// that error in the one of Update.
func (c *Counter) Update(ctx context.Context, change func(old int64) (int64, error)) (Value, error) {
	if change == nil {
		return Value{}, operr.NoFunction("update", c.path, "change")
	}
	return c.change(ctx, "update", func(old int64) (int64, error) {
		number, err := change(old)
		if err != nil {
			return 0, err
		}
		return c.checkFits(number)
	})
}

// CompareAndSet sets the value if it is old, and reports whether it was. If not, v is the value that it was compared with.
func (c *Counter) CompareAndSet(ctx context.Context, old, number int64) (v Value, swapped bool, err error) {
	v, err = c.change(ctx, "compare and set", func(now int64) (int64, error) {
		if now != old {
			return 0, errDiffers
		}
		return c.checkFits(number)
	})
	if errors.Is(err, errDiffers) {
		return v, false, nil
	}
	return v, err == nil, err
}

var errDiffers = errors.New("the value is another one")

func (c *Counter) checkFits(number int64) (int64, error) {
	if c.opt.Format == Int32 && int64(int32(number)) != number {
		return 0, &OverflowError{c.opt.Format, 0, number}
	}
	return number, nil
}

// opError wraps an error, and keeps what it says about an unknown outcome.
func (c *Counter) opError(op string, err error) error { return operr.Wrap(op, c.path, err, false) }

// notSent returns an error of a request that went before the change. That request may have taken effect, but not the change.
func notSent(err error) error {
	var inner *client.OpError
	if errors.As(err, &inner) {
		return &client.OpError{Op: inner.Op, Path: inner.Path, Err: inner.Err}
	}
	return err
}

// read returns the value.
func (c *Counter) read(ctx context.Context, s *client.Session) (Value, error) {
	data, stat, err := s.Get(ctx, c.path)
	if errors.Is(err, zk.ErrNoNode) {
		return Value{Number: c.opt.Initial}, nil
	}
	if err != nil {
		return Value{}, err
	}
	number, err := c.decode(data)
	return Value{number, stat}, err
}

// change replaces the value by what f makes of it. If f refuses, that is its error, and the value is the one that f refused: it
// was read behind a sync, so the counter had it at some time since the call. When the session ends, it goes on under the next one,
// unless the change may have been made.
func (c *Counter) change(ctx context.Context, op string, f func(int64) (int64, error)) (v Value, err error) {
	var inDoubt error
	err = c.k.Run(ctx, func(ctx context.Context, s *client.Session) (err error) {
		v, err = c.changeUnder(ctx, s, f)
		if client.MaybeApplied(err) {
			inDoubt = err
			return nil
		}
		return err
	})
	if inDoubt != nil {
		err = inDoubt
	}
	if err != nil {
		return v, c.opError(op, err)
	}
	return v, nil
}

// changeUnder is change under one session.
func (c *Counter) changeUnder(ctx context.Context, s *client.Session, f func(int64) (int64, error)) (Value, error) {
	if err := c.ensure(ctx, s); err != nil {
		return Value{}, notSent(err)
	}
	for {
		refused := false
		v, err := c.write(ctx, s, func(old int64) (int64, error) {
			number, err := f(old)
			refused = err != nil
			return number, err
		})
		switch {
		case err == nil:
			return v, nil
		case !refused && errors.Is(err, zk.ErrNoNode): // another client has deleted the counter, and what we read from may be behind
			if err := s.Sync(ctx, c.path); err != nil {
				return Value{}, err
			}
			if err := c.ensure(ctx, s); err != nil {
				return Value{}, notSent(err)
			}
			continue
		case !refused:
			return Value{}, err
		}
		// The server that we read from may be behind.
		if err := s.Sync(ctx, c.path); err != nil {
			return Value{}, err
		}
		if v, err = c.read(ctx, s); err != nil {
			return Value{}, err
		}
		if _, err = f(v.Number); err != nil {
			return v, err
		}
	}
}

// ensure creates the counter if it is missing. Whether another client does it does not matter.
func (c *Counter) ensure(ctx context.Context, s *client.Session) error {
	_, there, err := s.Exists(ctx, c.path)
	if there || err != nil {
		return err
	}
	for {
		if err := s.EnsurePath(ctx, zk.Parent(c.path), c.opt.ACL); err != nil {
			return err
		}
		_, err := s.Create(ctx, c.path, c.encode(c.opt.Initial), zk.Persistent, c.opt.ACL)
		switch {
		case err == nil || errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrConnectionLoss):
			return err
		}
	}
}

// write changes the counter, which is there.
func (c *Counter) write(ctx context.Context, s *client.Session, f func(int64) (int64, error)) (Value, error) {
	if c.opt.Exact {
		return c.writeExactly(ctx, s, f)
	}
	var number int64
	node, err := s.Update(ctx, c.path, func(old []byte) ([]byte, error) {
		now, err := c.decode(old)
		if err != nil {
			return nil, err
		}
		if number, err = f(now); err != nil {
			return nil, err
		}
		return c.encode(number), nil
	})
	return Value{number, node.Stat}, err
}

// decode reads a number.
func (c *Counter) decode(data []byte) (int64, error) {
	switch {
	case len(data) == 0:
		return c.opt.Initial, nil
	case c.opt.Format == Int64 && len(data) == 8:
		return int64(binary.BigEndian.Uint64(data)), nil
	case c.opt.Format == Int32 && len(data) == 4:
		return int64(int32(binary.BigEndian.Uint32(data))), nil
	case c.opt.Format == Decimal:
		if number, err := strconv.ParseInt(string(data), 10, 64); err == nil {
			return number, nil
		}
	}
	return 0, &FormatError{c.opt.Format, data}
}

// encode writes a number that fits.
func (c *Counter) encode(number int64) []byte {
	switch c.opt.Format {
	case Int32:
		return binary.BigEndian.AppendUint32(nil, uint32(number))
	case Decimal:
		return strconv.AppendInt(nil, number, 10)
	}
	return binary.BigEndian.AppendUint64(nil, uint64(number))
}
