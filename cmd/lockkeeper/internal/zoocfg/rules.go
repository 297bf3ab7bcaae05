package zoocfg

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A rule takes a setting of one key.
type rule func(*parser, Setting) error

// text takes any text.
func text(field func(*parser) *string) rule {
	return func(p *parser, s Setting) error {
		*field(p) = s.Value
		return nil
	}
}

// host takes the name or the address of a host; one of IPv6 may have brackets, as in Java.
func host(field func(*parser) *string) rule {
	return func(p *parser, s Setting) error {
		*field(p) = s.Value
		if inner, ok := strings.CutPrefix(s.Value, "["); ok {
			*field(p) = strings.TrimSuffix(inner, "]")
		}
		return nil
	}
}

// path takes the path of a directory.
func path(field func(*parser) *string) rule {
	return func(p *parser, s Setting) error {
		if s.Value == "" {
			return &Error{s, "must be the path of a directory"}
		}
		*field(p) = filepath.Clean(s.Value)
		return nil
	}
}

// port takes the number of a port.
func port(field func(*parser) *string) rule {
	return number(0, math.MaxUint16, "the number of a port", func(p *parser, n int64) { *field(p) = strconv.FormatInt(n, 10) })
}

// number takes a whole number.
func number(least, most int64, what string, set func(*parser, int64)) rule {
	return func(p *parser, s Setting) error {
		n, err := strconv.ParseInt(s.Value, 10, 64)
		if err != nil || n < least || n > most {
			return &Error{s, fmt.Sprintf("must be %s, from %d to %d", what, least, most)}
		}
		set(p, n)
		return nil
	}
}

// hexNumber takes a whole number, or with 0x in front a hexadecimal one.
func hexNumber(least, most int64, what string, set func(*parser, int64)) rule {
	decimal := number(least, most, what, set)
	return func(p *parser, s Setting) error {
		if digits, ok := strings.CutPrefix(strings.ToLower(s.Value), "0x"); ok {
			if n, err := strconv.ParseInt(digits, 16, 64); err == nil && n >= least && n <= most {
				set(p, n)
				return nil
			}
		}
		return decimal(p, s)
	}
}

// truth takes a yes or a no.
func truth(set func(*parser, bool)) rule {
	return func(p *parser, s Setting) error {
		yes, ok := truthOf(s.Value)
		if !ok {
			return &Error{s, "must be true or false (yes or no)"}
		}
		set(p, yes)
		return nil
	}
}

func truthOf(value string) (yes, ok bool) {
	switch strings.ToLower(value) {
	case "true", "yes":
		return true, true
	case "false", "no":
		return false, true
	}
	return false, false
}

// forceSync turns syncs off with the value no alone, as ZooKeeper does: a file that ran a server with syncs must not run one without. The
// server itself warns of no.
func forceSync(p *parser, s Setting) error {
	yes, ok := truthOf(s.Value)
	if !ok {
		return &Error{s, "must be yes or no"}
	}
	p.Server.NoSync = s.Value == "no"
	if !yes && !p.Server.NoSync {
		p.Notes = append(p.Notes, Note{s, "has no effect: as in ZooKeeper, only no turns syncs off"})
	}
	return nil
}

// noEffect notes that a setting has none. With one of the values that change nothing, there is nothing to
// say.
func noEffect(why string, unchanging ...string) rule {
	return func(p *parser, s Setting) error {
		for _, v := range unchanging {
			if strings.EqualFold(v, s.Value) {
				return nil
			}
		}
		p.Notes = append(p.Notes, Note{s, "has no effect: " + why})
		return nil
	}
}

// required refuses all but the values with which ZooKeeper would let in the clients that we let in.
func required(why string, allowed ...string) rule {
	return func(p *parser, s Setting) error {
		for _, v := range allowed {
			if strings.EqualFold(v, s.Value) {
				return nil
			}
		}
		return &Error{s, fmt.Sprintf("%s; allowed is %s", why, strings.Join(allowed, " or "))}
	}
}

// milliseconds is a number of them that a ZooKeeper could hold, too.
func milliseconds(least int64, set func(*parser, time.Duration)) rule {
	return number(least, math.MaxInt32, "a number of milliseconds", func(p *parser, n int64) { set(p, time.Duration(n)*time.Millisecond) })
}
