package client

import (
	"context"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// An Identity is one of those that the server knows the session by.
type Identity struct {
	Scheme string
	ID     string // with the digest scheme only the user, without the hash
}

// WhoAmI returns the identities of the session on its present connection. Servers answer it since 3.7.0.
func (s *Session) WhoAmI(ctx context.Context) ([]Identity, error) {
	return again(ctx, s, func(p *Pipeline) *Pending[[]Identity] {
		k := add(p, "whoAmI", wire.OpWhoAmI, "", noRecord{}, readIdentities)
		k.refuse = nil // there is no path
		return k
	})
}

// noRecord is the body of a request that has none.
type noRecord struct{}

func (noRecord) AppendTo(b []byte) []byte { return b }
func (noRecord) DecodeFrom(*wire.Decoder) {}

func readIdentities(_ *Session, d *wire.Decoder, v *[]Identity) error {
	var r wire.WhoAmIResponse
	r.DecodeFrom(d)
	for _, id := range r.Identities {
		*v = append(*v, Identity(id))
	}
	return nil
}

// Ephemerals returns the paths of the session's own ephemeral znodes at and below prefix. Servers answer it since 3.6.0.
func (s *Session) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	return again(ctx, s, func(p *Pipeline) *Pending[[]string] {
		return add(p, "getEphemerals", wire.OpGetEphemerals, prefix, &wire.PrefixRequest{Prefix: s.chrooted(prefix)}, readPaths)
	})
}

func readPaths(s *Session, d *wire.Decoder, v *[]string) error {
	*v = d.Strings()
	for i, path := range *v {
		(*v)[i] = s.unchrooted(path)
	}
	return nil
}

// CountBelow returns how many znodes there are below path, at any depth. Servers answer it since 3.6.0.
func (s *Session) CountBelow(ctx context.Context, path string) (int32, error) {
	return again(ctx, s, func(p *Pipeline) *Pending[int32] {
		return add(p, "getAllChildrenNumber", wire.OpAllChildrenCount, path, &wire.PathRecord{Path: s.chrooted(path)}, readCount)
	})
}

func readCount(_ *Session, d *wire.Decoder, v *int32) error {
	*v = d.Int32()
	return nil
}
