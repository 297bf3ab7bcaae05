package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Layout is how services are laid out below the base.
type Layout int

// The layouts.
const (
	Curator Layout = iota // BASE/NAME/ID with JSON; Spring Cloud's, too
	Dubbo                 // BASE/INTERFACE/providers/URL
)

// A MalformedError says that a znode is no instance that can be read.
type MalformedError struct {
	Path string
	Err  error
}

func (e *MalformedError) Error() string { return fmt.Sprintf("instance %s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *MalformedError) Unwrap() error { return e.Err }

// ErrNoInstance is returned when a service has no instance. The error is a *NoInstanceError.
var ErrNoInstance = errors.New("no instance is registered")

// A NoInstanceError says that a service has no instance.
type NoInstanceError struct {
	Base, Name string
	Malformed  int // znodes that are no instances that can be read
}

func (e *NoInstanceError) Error() string {
	s := fmt.Sprintf("resolve %s: no instance is registered", zk.Join(e.Base, e.Name))
	if e.Malformed > 0 {
		s += fmt.Sprintf(" that can be read, and %d that cannot", e.Malformed)
	}
	return s
}

// Is makes errors.Is(err, ErrNoInstance) hold.
func (e *NoInstanceError) Is(target error) bool { return target == ErrNoInstance }

// A Directory knows all services below a base. It is safe for use by many goroutines.
type Directory struct {
	// Fixed by Open.
	c        *cache.Cache
	base     string
	opt      Options
	failures *failures

	newest atomic.Pointer[listing]

	mu     sync.Mutex                // held while a listing is made
	parsed map[string]parsedInstance // by path
	turns  map[string]*atomic.Uint64 // of round robin, by service
}

// A listing is what one view of the cache says. It never changes.
type listing struct {
	view      cache.View
	services  map[string][]Instance // enabled and disabled ones, by id
	usable    map[string][]Instance // enabled ones
	hashes    map[string][]uint64   // of the ids of those in usable
	turns     map[string]*atomic.Uint64
	malformed []*MalformedError
}

// parsedInstance is what a version of a znode was read as.
type parsedInstance struct {
	mzxid int64
	inst  Instance
	err   error
}

// Options configure a Directory. The zero value of every field means its default.
type Options struct {
	// Layout is what a Directory reads. Default: Curator.
	Layout Layout

	// FailuresMax is after how many failures in a row, each within FailureTime of the one before, an instance is left out, for
	// FailureTime. Defaults 2 and 30 s, as Curator has them.
	FailuresMax int
	FailureTime time.Duration

	// Logger gets a line for whatever an operator should know. Default: silent.
	Logger *slog.Logger
}

// Open reads all services below base, which need not exist, and keeps them in memory. ctx bounds the reading only. Close
// must be called.
func Open(ctx context.Context, k *client.Keeper, base string, opt Options) (*Directory, error) {
	if err := operr.NoKeeper("discovery", base, k); err != nil {
		return nil, err
	}
	if opt.FailuresMax == 0 {
		opt.FailuresMax = 2
	}
	if opt.FailureTime == 0 {
		opt.FailureTime = 30 * time.Second
	}
	if opt.FailuresMax < 0 || opt.FailureTime < 0 || opt.Layout < Curator || opt.Layout > Dubbo {
		return nil, fmt.Errorf("discovery %s: options FailuresMax %d, FailureTime %v, Layout %d: one is out of range", base, opt.FailuresMax, opt.FailureTime, opt.Layout)
	}
	c, err := cache.Open(ctx, k, base, cache.Options{Logger: opt.Logger})
	if err != nil {
		return nil, operr.Wrap("discovery", base, err, false)
	}
	return &Directory{c: c, base: base, opt: opt, failures: newFailures(opt.FailuresMax, opt.FailureTime),
		parsed: map[string]parsedInstance{}, turns: map[string]*atomic.Uint64{}}, nil
}

// listing returns the newest listing, and makes it if the cache has a newer view.
func (d *Directory) listing() *listing {
	if l := d.newest.Load(); l != nil && l.view == d.c.View() {
		return l
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	view := d.c.View()
	if l := d.newest.Load(); l != nil && l.view == view {
		return l
	}
	l := &listing{view: view, services: map[string][]Instance{}, usable: map[string][]Instance{}, hashes: map[string][]uint64{}}
	parsed := map[string]parsedInstance{}
	for n := range view.All() {
		name, ok := d.instanceOf(n.Path)
		if !ok {
			continue
		}
		p, known := d.parsed[n.Path]
		if !known || p.mzxid != n.Stat.Mzxid {
			p = d.parse(name, n)
		}
		parsed[n.Path] = p
		if p.err != nil {
			l.malformed = append(l.malformed, &MalformedError{n.Path, p.err})
			continue
		}
		l.services[name] = append(l.services[name], p.inst)
		if !p.inst.Disabled {
			l.usable[name] = append(l.usable[name], p.inst)
		}
	}
	turns := map[string]*atomic.Uint64{}
	for name, all := range l.usable {
		l.hashes[name] = hashIDs(all)
		turns[name] = d.turns[name]
		if turns[name] == nil {
			turns[name] = new(atomic.Uint64)
		}
	}
	l.turns, d.parsed, d.turns = turns, parsed, turns
	d.newest.Store(l)
	return l
}

// instanceOf returns the service of an instance's znode; ok is false for other znodes.
func (d *Directory) instanceOf(path string) (service string, ok bool) {
	rest := strings.TrimPrefix(path, strings.TrimSuffix(d.base, "/")+"/")
	parts := strings.Split(rest, "/")
	if d.opt.Layout == Dubbo {
		return parts[0], len(parts) == 3 && parts[1] == "providers"
	}
	return parts[0], len(parts) == 2 && rest != path
}

// parse reads an instance.
func (d *Directory) parse(service string, n cache.Node) parsedInstance {
	p := parsedInstance{mzxid: n.Stat.Mzxid}
	if d.opt.Layout == Dubbo {
		p.inst, p.err = dubboProvider(service, n)
		return p
	}
	p.inst, p.err = Decode(n.Data)
	if p.err == nil && p.inst.Name != service {
		p.err = fmt.Errorf("it says that its name is %q", p.inst.Name)
	}
	return p
}

// dubboProvider reads a provider of Dubbo 2: the name of the znode is its URL, escaped.
func dubboProvider(service string, n cache.Node) (Instance, error) {
	i := Instance{Name: service, Type: Dynamic, Registered: time.UnixMilli(n.Stat.Ctime).UTC()}
	text, err := url.QueryUnescape(zk.Base(n.Path))
	if err != nil {
		return i, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return i, err
	}
	i.ID, i.Address = text, u.Hostname()
	if u.Port() != "" {
		if i.Port, err = strconv.Atoi(u.Port()); err != nil {
			return i, err
		}
	}
	i.Disabled = u.Query().Get("disabled") == "true" || u.Query().Get("enabled") == "false"
	return i, nil
}

// Services returns the names of the services that have instances.
func (d *Directory) Services() []string { return slices.Sorted(maps.Keys(d.listing().services)) }

// Instances returns all instances of a service, disabled ones included. It must not be changed.
func (d *Directory) Instances(name string) []Instance { return d.listing().services[name] }

// Malformed returns the znodes that are no instances that can be read, each with its path.
func (d *Directory) Malformed() []*MalformedError { return d.listing().malformed }

// WaitFor waits until the instances of a service are as wanted, and returns them.
func (d *Directory) WaitFor(ctx context.Context, name string, wanted func([]Instance) bool) ([]Instance, error) {
	if wanted == nil {
		return nil, operr.NoFunction("discovery", d.base, "wanted")
	}
	var found []Instance
	_, err := d.c.WaitFor(ctx, func(cache.View) bool {
		found = d.Instances(name)
		return wanted(found)
	})
	if err != nil {
		return nil, operr.Wrap("discovery", d.base, err, false)
	}
	return found, nil
}

// Changed returns a channel that is closed when the services may have changed; look again then, and call Changed again before.
func (d *Directory) Changed() <-chan struct{} {
	_, changed := d.c.State()
	return changed
}

// Stale returns why the services may be behind what the ensemble has; nil if they are not.
func (d *Directory) Stale() error {
	st, _ := d.c.State()
	return st.Stale
}

// Done is closed when the Directory follows no more. It keeps the services that it knows.
func (d *Directory) Done() <-chan struct{} { return d.c.Done() }

// Err returns nil until Done is closed, and then why the Directory follows no more.
func (d *Directory) Err() error { return operr.Wrap("discovery", d.base, d.c.Err(), false) }

// Close ends the Directory. Closing again is harmless.
func (d *Directory) Close(ctx context.Context) error { return d.c.Close(ctx) }
