package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
)

// The headers with which a request carries a claim. The token is a decimal number, as lockkeeper run
// gives it in LOCKKEEPER_TOKEN; the resource is the receiver's name for what the lock guards.
const (
	TokenHeader    = "Lockkeeper-Token"
	ResourceHeader = "Lockkeeper-Resource"
)

// ErrMissing is returned when a request has no TokenHeader.
var ErrMissing = errors.New("no " + TokenHeader + " header")

// A Holder has a token. A *lock.Hold is one.
type Holder interface {
	Token() int64
	Cause() error // nil while it holds
}

// SetHeader puts the claim of a holder into a request's header, or returns an error and sets nothing. If the hold is over, the
// error is the hold's Cause. It is ErrInvalid for a *lock.Hold that is a permit of a semaphore, or the read side of a read/write lock
// as after a downgrade, because its token does not order the holders; a Holder of another type is believed. Send the request
// with the hold's context, so that it ends with it.
func SetHeader(h http.Header, resource string, holder Holder) error {
	if h == nil {
		return errors.New("fence: the header is nil, and nothing can be put into it (make one: http.Header{})")
	}
	if holder == nil {
		return fmt.Errorf("%w: there is no holder", ErrInvalid)
	}
	if err := holder.Cause(); err != nil {
		return err
	}
	if what := bridge.SharedHold(holder); what != "" {
		return fmt.Errorf("%w: %s has a token that does not order the holders", ErrInvalid, what)
	}
	c := Claim{resource, holder.Token()}
	if err := c.Check(); err != nil {
		return err
	}
	h.Set(TokenHeader, strconv.FormatInt(c.Token, 10))
	h.Set(ResourceHeader, c.Resource)
	return nil
}

// ParseHeader returns the claim in a request's header. The error is ErrMissing if there is no token, and
// ErrInvalid if there is no claim to make of what is there.
func ParseHeader(h http.Header) (Claim, error) {
	return parseClaim(h, func() (string, error) { return single(h, ResourceHeader) })
}

// parseClaim is ParseHeader for a resource that comes from anywhere; it is asked for if there is a token.
func parseClaim(h http.Header, name func() (string, error)) (Claim, error) {
	if len(h.Values(TokenHeader)) == 0 {
		return Claim{}, ErrMissing
	}
	resource, err := name()
	if err != nil {
		return Claim{}, err
	}
	text, err := single(h, TokenHeader)
	if err != nil {
		return Claim{}, err
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(token, 10) != text {
		return Claim{}, fmt.Errorf("%w: %s is %.32q, not a decimal number of 64 bits", ErrInvalid, TokenHeader, text)
	}
	c := Claim{resource, token}
	if err := c.Check(); err != nil {
		return Claim{}, err
	}
	return c, nil
}

// single returns the value of a header that must not be there twice: proxies and servers disagree about
// which one counts.
func single(h http.Header, name string) (string, error) {
	switch v := h.Values(name); len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	default:
		return "", fmt.Errorf("%w: %d headers %s", ErrInvalid, len(v), name)
	}
}

type claimKey struct{}

// FromContext returns the claim that a Handler found in the request of this context.
func FromContext(ctx context.Context) (c Claim, ok bool) {
	c, ok = ctx.Value(claimKey{}).(Claim)
	return c, ok
}
