package grpcresolver

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/lockkeeper/lockkeeper/discovery"
)

// Scheme is that of targets.
const Scheme = "lockkeeper"

// New returns a builder of resolvers that ask the Directory. The Directory stays the caller's, which closes it after the
// connections.
func New(d *discovery.Directory) resolver.Builder { return &builder{d} }

type builder struct{ d *discovery.Directory }

func (b *builder) Scheme() string { return Scheme }

// Build begins to tell gRPC of the instances of a service.
func (b *builder) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	name := (&url.URL{Host: target.Endpoint()}).Hostname() // without a port, which each instance has
	if name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("resolve %s: the name of the service, %q, is empty or contains a slash (want %s:///NAME)", target.String(), name, Scheme)
	}
	r := &follower{d: b.d, name: name, conn: conn, closing: make(chan struct{})}
	r.running.Go(r.follow)
	return r, nil
}

// A follower tells a connection of the instances of a service.
type follower struct {
	d       *discovery.Directory
	name    string
	conn    resolver.ClientConn
	told    bool // gRPC has been told of instances; only follow uses it
	closing chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

// ResolveNow does nothing: changes are told as soon as they are known.
func (r *follower) ResolveNow(resolver.ResolveNowOptions) {}

// Close returns when the connection is told of nothing any more.
func (r *follower) Close() {
	r.once.Do(func() { close(r.closing) })
	r.running.Wait()
}

// follow tells of the instances, and again whenever they may have changed.
func (r *follower) follow() {
	for {
		changed := r.d.Changed()
		r.tell()
		select {
		case <-changed:
		case <-r.d.Done():
			r.conn.ReportError(r.d.Err())
			return
		case <-r.closing:
			return
		}
	}
}

// idKey is the key of an instance's id among the attributes of its endpoint.
type idKey struct{}

// ID returns the id of the instance that an endpoint is; empty if it is none.
func ID(e resolver.Endpoint) string {
	id, _ := e.Attributes.Value(idKey{}).(string)
	return id
}

func (r *follower) tell() {
	var state resolver.State
	var unusable []error
	for _, i := range r.d.Instances(r.name) {
		if i.Disabled {
			continue
		}
		address, err := i.HostPort()
		if err != nil {
			unusable = append(unusable, err)
			continue
		}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{
			Addresses:  []resolver.Address{{Addr: address}},
			Attributes: attributes.New(idKey{}, i.ID),
		})
	}
	if len(state.Endpoints) == 0 {
		_, err := r.d.RoundRobin(r.name) // says what is missing, and whether something is malformed
		if err == nil {
			err = errors.Join(unusable...)
		}
		if err == nil {
			return // one has come meanwhile, which Watch tells of
		}
		if r.told { // those are gone
			r.conn.UpdateState(state)
		}
		r.conn.ReportError(err)
		return
	}
	r.told = true
	r.conn.UpdateState(state) // its error asks to be resolved again, which happens with the next change
}
