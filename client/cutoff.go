package client

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/ending"
)

// A cutOff says why there is no connection: how the last one ended and, for each server, what came of the last attempt
// since. It is not changed once it has been shown.
type cutOff struct {
	cause    error // nil while Open waits for the first one
	attempts []Attempt
}

func (c *cutOff) Error() string {
	if len(c.attempts) == 0 {
		return c.cause.Error()
	}
	return fmt.Sprintf("%v; since then %s", c.cause, listed(c.attempts))
}

// Unwrap returns the end of the last connection and the errors of the attempts.
func (c *cutOff) Unwrap() []error {
	errs := []error{c.cause}
	for _, a := range c.attempts {
		errs = append(errs, a.Err)
	}
	return errs
}

// listed names each attempt and what came of it. Servers with the same outcome are named together.
func listed(attempts []Attempt) string {
	var outcomes []string
	servers := map[string][]string{} // by outcome
	for _, a := range attempts {
		outcome := bare(a.Err).Error()
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

// bare returns the error of a network operation without the operation and the addresses, which the caller names itself.
func bare(err error) error {
	if op, ok := err.(*net.OpError); ok && slices.Contains([]string{"dial", "read", "write"}, op.Op) { // and not an alert of TLS
		err = op.Err
	}
	if call, ok := err.(*os.SyscallError); ok {
		err = call.Err
	}
	return err
}

// attempted notes that an attempt to connect has failed, in place of the last one at the same server.
func (s *Session) attempted(server string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cut == nil {
		return
	}
	cut := &cutOff{cause: s.mu.cut.cause, attempts: slices.Clone(s.mu.cut.attempts)}
	i := slices.IndexFunc(cut.attempts, func(a Attempt) bool { return a.Server == server })
	switch {
	case i < 0:
		cut.attempts = append(cut.attempts, Attempt{server, err})
	case err != errUnanswered: // what came of an earlier one says more
		cut.attempts[i].Err = err
	}
	s.mu.cut = cut
	if s.mu.state.Phase == Disconnected {
		s.mu.state.Cause = cut
	}
}

// attempts returns what came of the last attempt at each server since there is no connection; nothing if there is one.
func (s *Session) attempts() []Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cut == nil {
		return nil
	}
	return s.mu.cut.attempts
}

// endOf says why ctx has ended, and why there is no connection, if there is none.
func (s *Session) endOf(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endOfLocked(ctx)
}

func (s *Session) endOfLocked(ctx context.Context) error {
	if s.mu.cut == nil {
		return ending.Of(ctx)
	}
	return ending.CutOff(ending.Of(ctx), s.mu.cut)
}
