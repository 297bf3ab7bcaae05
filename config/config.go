package config

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Options configure a Value. The zero value of every field means its default.
type Options[T any] struct {
	// Default is what the layers are laid over; it is in force alone only with Optional. Each value is made of a copy of it,
	// with copies of its maps, of its lists, and of what its pointers point at; what unexported fields refer to is shared, but for
	// embedded structs. It must not contain itself.
	Default T

	// Decode sets what the data of a layer's znode says, which is never empty, and leaves all else in the value as it is: a
	// decoder of YAML fits. It should make the elements of lists anew, which json.Unmarshal does not. Default: JSON, with
	// lists made anew.
	Decode func(data []byte, value *T) error

	// Keys reads the znodes below each layer as keys, with text as values, in place of the data of the layer's znode.
	Keys bool

	// Strict refuses keys that the value has no place for, in JSON and with Keys: a misspelt one, for example. A Decode of the
	// program's own has to do that itself, and so has a type with a method UnmarshalJSON. Default: they are passed over.
	Strict bool

	// Validate refuses a value that must not come into force. A panic of Validate or Decode refuses it as well: what is stored must not
	// end all programs that read it.
	Validate func(T) error

	// Optional takes Default where no layer is there, or none has data. Default: that is an error, and the last good value
	// stays.
	Optional bool

	// Logger gets a line when a value comes into force and when one is refused. Default: silent.
	Logger *slog.Logger
}

// errNothing is the error of a Value whose layers say nothing.
var errNothing = fmt.Errorf("nothing is configured, and Options.Optional is not set: %w", zk.ErrNoNode)

// A BadError says that a configuration does not come into force.
type BadError struct {
	Path    string // of the znode that is bad; of the most specific layer if they are bad together
	Version int32  // of its data; -1 if it is missing
	Err     error
}

func (e *BadError) Error() string {
	if e.Version < 0 {
		return fmt.Sprintf("config %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("config %s, version %d: %v", e.Path, e.Version, e.Err)
}

// Unwrap returns the cause.
func (e *BadError) Unwrap() error { return e.Err }

// A Source is a znode that a value was made of.
type Source struct {
	Path   string
	Stat   zk.Stat // Mzxid and Mtime say when it was changed last
	Writer *Writer // the program that has written it with Store; nil if it was written in another way
}

// A Snapshot is a value that is or was in force.
type Snapshot[T any] struct {
	Value   T
	Sources []Source // the most specific layer first
}

// A State is what is true of a Value at one moment.
type State[T any] struct {
	Snapshot[T]
	Bad   error // a *BadError: why what is stored now is not in force; nil if it is
	Stale error // why the value may be behind what the ensemble has; nil if it is not
}

// A Value is configuration of type T that follows its znodes. It is safe for use by many goroutines.
type Value[T any] struct {
	// Fixed by Open.
	layers []string
	caches []*cache.Cache
	opt    Options[T]
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	done   chan struct{}  // closed when follow has ended; err is set before
	wg     sync.WaitGroup // one goroutine for each layer

	newest atomic.Pointer[Snapshot[T]]

	mu struct {
		sync.Mutex
		state   State[T]
		changed chan struct{} // closed when state is replaced
		err     error
	}
}

// Open reads the configuration at the given layers, the most specific first, and follows it. It fails if what is there
// is bad, with a *BadError, or cannot be read, with a *client.OpError. If there is nothing and Options.Optional is not set, it is a
// *BadError that is zk.ErrNoNode. ctx bounds the reading only. Close must be called.
func Open[T any](ctx context.Context, k *client.Keeper, layers []string, opt Options[T]) (*Value[T], error) {
	if len(layers) == 0 {
		return nil, errors.New("config: no path is given")
	}
	if err := operr.NoKeeper("config", layers[0], k); err != nil {
		return nil, err
	}
	if opt.Decode != nil && opt.Strict {
		return nil, fmt.Errorf("config %s: options Strict and Decode: a decoder of the program's own has to refuse unknown keys itself", layers[0])
	}
	if opt.Decode == nil {
		opt.Decode = func(data []byte, value *T) error { return decodeJSON(data, value, opt.Strict) }
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.Default = detached(opt.Default) // the caller may change its own
	v := &Value[T]{layers: slices.Clone(layers), opt: opt, done: make(chan struct{})}
	v.ctx, v.cancel = context.WithCancelCause(context.Background())
	v.mu.changed = make(chan struct{})
	for _, path := range layers {
		c, err := cache.Open(ctx, k, path, cache.Options{Logger: opt.Logger})
		if err != nil {
			v.closeCaches(ctx)
			return nil, operr.Wrap("config", path, err, false)
		}
		v.caches = append(v.caches, c)
	}
	if err := v.look(); err != nil {
		v.closeCaches(ctx)
		return nil, err
	}
	go v.follow()
	return v, nil
}

func (v *Value[T]) closeCaches(ctx context.Context) {
	for _, c := range v.caches {
		c.Close(ctx)
	}
}

// follow looks whenever a layer has changed, until Close or until a layer cannot be followed any more.
func (v *Value[T]) follow() {
	wake := make(chan error, 1)
	for _, c := range v.caches {
		v.wg.Go(func() { v.followLayer(c, wake) })
	}
	var err error
	for err == nil {
		select {
		case err = <-wake:
			v.look()
		case <-v.ctx.Done():
			err = zk.ErrClosed
		}
	}
	v.cancel(err)
	v.wg.Wait()
	v.mu.Lock()
	v.mu.err = err
	if v.mu.state.Stale == nil {
		v.mu.state.Stale = err
		close(v.mu.changed)
		v.mu.changed = make(chan struct{})
	}
	v.mu.Unlock()
	close(v.done)
}

// followLayer puts a token into wake whenever a layer has changed, and the error when it has ended.
func (v *Value[T]) followLayer(c *cache.Cache, wake chan<- error) {
	for {
		_, changed := c.State()
		select {
		case wake <- nil: // the first time, too: something may have changed since Open looked
		case <-v.ctx.Done():
			return
		}
		select {
		case <-changed:
		case <-c.Done():
			select {
			case wake <- c.Err():
			case <-v.ctx.Done():
			}
			return
		case <-v.ctx.Done():
			return
		}
	}
}

// look makes a value of what the layers have now, and puts it into force if it is good.
func (v *Value[T]) look() error {
	snapshot, bad := v.read()
	v.mu.Lock()
	next := State[T]{Snapshot: v.mu.state.Snapshot, Bad: bad}
	for _, c := range v.caches {
		if st, _ := c.State(); st.Stale != nil && next.Stale == nil {
			next.Stale = st.Stale
		}
	}
	old := v.mu.state
	fresh := bad == nil && (v.newest.Load() == nil || !sameSources(old.Sources, snapshot.Sources))
	if fresh {
		next.Snapshot = snapshot
		v.newest.Store(&snapshot)
	}
	if fresh || !sameError(old.Bad, bad) || !sameError(old.Stale, next.Stale) {
		v.mu.state = next
		close(v.mu.changed)
		v.mu.changed = make(chan struct{})
	}
	v.mu.Unlock() // the handler of log lines may look at the Value
	switch {
	case fresh:
		v.opt.Logger.Info("config: in force", "path", v.layers[0], "sources", len(snapshot.Sources))
	case bad != nil && !sameError(old.Bad, bad) && v.newest.Load() != nil: // without a value, it is the error of Open
		v.opt.Logger.Error("config: refused, the last good value stays in force", "cause", bad)
	}
	return bad
}

func sameError(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
}

// sameSources reports whether two values were made of the same versions of the same znodes.
func sameSources(a, b []Source) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Path != b[i].Path || a[i].Stat.Mzxid != b[i].Stat.Mzxid {
			return false
		}
	}
	return true
}

// read makes a value of what the layers have now, the most general one first.
func (v *Value[T]) read() (Snapshot[T], error) {
	s := Snapshot[T]{Value: detached(v.opt.Default)}
	for i := len(v.layers) - 1; i >= 0; i-- {
		view := v.caches[i].View()
		sources, err := v.apply(view, v.layers[i], &s.Value)
		if err != nil {
			return s, err
		}
		s.Sources = append(sources, s.Sources...)
	}
	if len(s.Sources) == 0 && !v.opt.Optional {
		return s, &BadError{Path: v.layers[0], Version: -1, Err: errNothing}
	}
	if v.opt.Validate == nil {
		return s, nil
	}
	if err := v.safely(func() error { return v.opt.Validate(s.Value) }); err != nil {
		bad := &BadError{Path: v.layers[0], Version: -1, Err: err}
		if len(s.Sources) > 0 {
			bad.Path, bad.Version = s.Sources[0].Path, s.Sources[0].Stat.Version
		}
		return s, bad
	}
	return s, nil
}

// apply lays a layer over the value.
func (v *Value[T]) apply(view cache.View, layer string, value *T) ([]Source, error) {
	if v.opt.Keys {
		return applyKeys(view, layer, value, v.opt.Strict, v.safely)
	}
	n, ok := view.Get(layer)
	if !ok || len(n.Data) == 0 {
		return nil, nil
	}
	if err := v.safely(func() error { return v.opt.Decode(n.Data, value) }); err != nil {
		return nil, &BadError{Path: layer, Version: n.Stat.Version, Err: err}
	}
	return []Source{{Path: layer, Stat: n.Stat, Writer: writerOf(view, n)}}, nil
}

// safely calls f, which calls a function of the user's, and returns its panic as an error.
func (v *Value[T]) safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			v.opt.Logger.Error("config: a function of the configuration has panicked", "path", v.layers[0], "panic", r, "stack", string(debug.Stack()))
		}
	}()
	return f()
}

// Get returns the value that is in force.
func (v *Value[T]) Get() T { return v.newest.Load().Value }

// State returns the state, and a channel that is closed when it has passed.
func (v *Value[T]) State() (State[T], <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.state, v.mu.changed
}

// Changes returns the state, and then each that follows, when a value comes into force, when one is refused, and when the
// connection is lost or back. States that follow each other quickly may be skipped; the last one is not. It ends with an
// error, when ctx or the Value ends.
func (v *Value[T]) Changes(ctx context.Context) iter.Seq2[State[T], error] {
	return func(yield func(State[T], error) bool) {
		for {
			state, changed := v.State()
			if !yield(state, nil) {
				return
			}
			select {
			case <-changed:
				continue
			case <-v.done:
				if _, now := v.State(); now != changed {
					continue
				}
				yield(State[T]{}, v.Err())
			case <-ctx.Done():
				yield(State[T]{}, &client.OpError{Op: "config", Path: v.layers[0], Err: ending.Of(ctx)})
			}
			return
		}
	}
}

// Done is closed when the Value follows no more. It keeps its last good value.
func (v *Value[T]) Done() <-chan struct{} { return v.done }

// Err returns nil until Done is closed, and then why the Value follows no more.
func (v *Value[T]) Err() error {
	select {
	case <-v.done:
		v.mu.Lock()
		defer v.mu.Unlock()
		return &client.OpError{Op: "config", Path: v.layers[0], Err: v.mu.err}
	default:
		return nil
	}
}

// Close ends the Value and returns when its goroutines are over, and with them a call of Options.Validate that is under way, so that
// must not call it. ctx has no effect, closing again is harmless, and the error is always nil.
func (v *Value[T]) Close(ctx context.Context) error {
	v.cancel(zk.ErrClosed)
	<-v.done
	v.closeCaches(ctx)
	return nil
}

// SpringLayers returns the layers that Spring Cloud Zookeeper reads for an application and its active profiles below
// root, which is "/config" there, the most specific first. Its values are read with Options.Keys.
func SpringLayers(root, app string, profiles ...string) []string {
	var layers []string
	for _, name := range []string{app, "application"} {
		for i := len(profiles) - 1; i >= 0; i-- { // the last profile wins
			layers = append(layers, zk.Join(root, name+","+profiles[i]))
		}
		layers = append(layers, zk.Join(root, name))
	}
	return layers
}
