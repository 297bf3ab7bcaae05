package fence

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ResourceBytesMax is the length of the longest name of a resource.
const ResourceBytesMax = 512

var (
	// ErrStale is returned when a higher token has been seen, so the lock has passed on. The error is a *StaleError.
	ErrStale = errors.New("fencing token is stale")
	// ErrInvalid is returned for a resource without a name, one whose name is too long or not text, a token that is
	// not positive, or a hold whose token does not order the holders (SetHeader).
	ErrInvalid = errors.New("invalid fencing claim")
	// ErrFull is returned when the register remembers as many resources as it may.
	ErrFull = errors.New("fencing register is full")
)

// A Claim is what a holder sends along: the lock on Resource was granted to it with Token.
type Claim struct {
	Resource string
	Token    int64 // lock.Hold.Token
}

// Check returns nil or an error that is ErrInvalid.
func (c Claim) Check() error {
	switch r := c.Resource; {
	case r == "":
		return fmt.Errorf("%w: the resource has no name", ErrInvalid)
	case len(r) > ResourceBytesMax:
		return fmt.Errorf("%w: the resource's name has %d bytes, at most %d are allowed", ErrInvalid, len(r), ResourceBytesMax)
	case !utf8.ValidString(r) || strings.ContainsFunc(r, unicode.IsControl) || strings.TrimSpace(r) != r:
		return fmt.Errorf("%w: the resource's name %q is not plain text, or has space around it", ErrInvalid, r)
	case c.Token <= 0:
		return fmt.Errorf("%w: token %d is not positive", ErrInvalid, c.Token)
	}
	return nil
}

// A StaleError says which claim has been overtaken. errors.Is(err, ErrStale) holds.
type StaleError struct {
	Claim
	Newest int64 // the highest token that was seen; 0 if it could not be read
}

func (e *StaleError) Error() string {
	if e.Newest == 0 {
		return fmt.Sprintf("fence %s: token %d is stale", e.Resource, e.Token)
	}
	return fmt.Sprintf("fence %s: token %d is stale, %d was seen", e.Resource, e.Token, e.Newest)
}

// Is makes errors.Is(err, ErrStale) hold.
func (e *StaleError) Is(target error) bool { return target == ErrStale }
