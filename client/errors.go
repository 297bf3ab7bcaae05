package client

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/lockkeeper/lockkeeper/internal/socket"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An OpError says which operation on which znode went wrong. errors.Is(err, zk.ErrNoNode) and the
// like work however far the error has travelled.
type OpError struct {
	Op   string // "create", "delete", …
	Path string // as the caller named it, without the chroot

	// Err is a zk.Code from the server, a *MultiError, why the context or the session has ended, or what is wrong with the request
	// (a *SizeError or *zk.PathError) or with the answer.
	Err error

	// Maybe is set when the operation could have taken effect nevertheless; see MaybeApplied.
	Maybe bool
}

func (e *OpError) Error() string {
	text := e.Op
	switch {
	case strings.ContainsFunc(e.Path, unicode.IsControl): // no ZooKeeper has such a znode, but another server may say so
		text += " " + strconv.Quote(e.Path)
	case e.Path != "":
		text += " " + e.Path
	}
	text += fmt.Sprintf(": %v", e.Err)
	if e.Maybe && !MaybeApplied(e.Err) { // which says so itself
		text += " (outcome unknown)"
	}
	return text
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// MaybeApplied reports whether the write behind err could have taken effect, now or later: the request left, or is still to be sent,
// and the answer did not come. Look before writing again. It is false for an error that proves that nothing happened, and for reads.
func MaybeApplied(err error) bool {
	if op, ok := err.(*OpError); ok && op.Maybe {
		return true
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return MaybeApplied(u.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(u.Unwrap(), MaybeApplied)
	}
	return false
}

// A SizeError is the error of a request or an answer that is larger than Options.RequestBytesMax or ReplyBytesMax.
type SizeError struct {
	Bytes int64
	Max   int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("message of %d bytes, limit is %d", e.Bytes, e.Max)
}

// A SessionError says why a session is over. Its cause is zk.ErrSessionExpired, zk.ErrClosed or zk.ErrAuthFailed.
type SessionError struct {
	ID     int64
	Err    error
	Detail string // what led to it; may be empty

	presumed bool // no server has said so
}

func (e *SessionError) Error() string {
	switch {
	case e.ID == 0 && e.Detail != "":
		return "session not opened: " + e.Detail
	case e.Detail != "":
		return fmt.Sprintf("session %s: %v: %s", idText(e.ID), e.Err, e.Detail)
	}
	return fmt.Sprintf("session %s: %v", idText(e.ID), e.Err)
}

// Unwrap returns the cause.
func (e *SessionError) Unwrap() error { return e.Err }

// An OpenError says why no session could be established in the time given: for each server, what came of the last attempt.
type OpenError struct {
	Attempts []Attempt
	Err      error // the context's error
}

// An Attempt is what came of trying one server.
type Attempt struct {
	Server string // as configured
	Err    error
}

func (e *OpenError) Error() string {
	if len(e.Attempts) == 0 {
		return fmt.Sprintf("no ZooKeeper session: %v", e.Err)
	}
	return fmt.Sprintf("no ZooKeeper session: %v (%s)", e.Err, describeAttempts(e.Attempts))
}

// Unwrap returns the context's error and those of the attempts.
func (e *OpenError) Unwrap() []error {
	errs := []error{e.Err}
	for _, a := range e.Attempts {
		errs = append(errs, a.Err)
	}
	return errs
}

var (
	errBehind     = errors.New("the server hung up during the handshake: it is not serving, wants TLS, has as many connections of this address as it accepts, or is behind what this session has seen")
	errUnanswered = errors.New("no answer in the time given")
)

// isConnectionLoss reports whether err is a lost connection and nothing worse.
func isConnectionLoss(err error) bool { return errors.Is(err, zk.ErrConnectionLoss) }

// A disconnection says why there is no connection: how the last one ended and, for each server, what came of the last attempt
// since. It is not changed once it has been shown. Err is nil while Open waits for the first connection.
type disconnection struct{ OpenError }

func (c *disconnection) Error() string {
	if len(c.Attempts) == 0 {
		return c.Err.Error()
	}
	return fmt.Sprintf("%v; since then %s", c.Err, describeAttempts(c.Attempts))
}

// describeAttempts names each attempt and what came of it. Servers with the same outcome are named together.
func describeAttempts(attempts []Attempt) string {
	var outcomes []string
	servers := map[string][]string{} // by outcome
	for _, a := range attempts {
		outcome := socket.WithoutAddress(a.Err).Error()
		if servers[outcome] == nil {
			outcomes = append(outcomes, outcome)
		}
		servers[outcome] = append(servers[outcome], a.Server)
	}
	for i, outcome := range outcomes {
		outcomes[i] = strings.Join(servers[outcome], ", ") + ": " + outcome
	}
	return strings.Join(outcomes, "; ")
}
