package peer

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/register"
)

// A holding is a locker with the register that it enters.
type holding struct {
	l   locker
	reg *register.Client
	in  []string // places that it has entered
}

// obey carries out one command.
func (h *holding) obey(f []string) (answer string, err error) {
	as := Mutex
	if n, ok := map[string]int{"lock": 2, "try": 3, "cycle": 3}[f[0]]; ok && len(f) == n+1 {
		as, f = As(f[n]), f[:n]
	}
	switch {
	case f[0] == "lock" && len(f) == 2:
		return h.take(f[1], as, -1)
	case f[0] == "try" && len(f) == 3:
		limit, err := parseMillis(f[2])
		if err != nil {
			return "", err
		}
		return h.take(f[1], as, limit)
	case f[0] == "unlock" && len(f) == 1:
		return "released", h.giveUp()
	case f[0] == "cycle" && len(f) == 3:
		n, err := strconv.Atoi(f[2])
		for i := 0; i < n && err == nil; i++ {
			err = h.cycle(f[1], as, 0)
		}
		return "done " + f[2], err
	case f[0] == "who" && len(f) == 2:
		if l, ok := h.l.(looker); ok {
			return l.who(f[1])
		}
	case f[0] == "spin" && len(f) == 5:
		return h.spin(f[1], f[2], f[3], strings.Split(f[4], ","))
	}
	return "", fmt.Errorf("unknown command %q", f)
}

func parseMillis(s string) (time.Duration, error) {
	n, err := strconv.Atoi(s)
	return time.Duration(n) * time.Millisecond, err
}

func (h *holding) spin(path, limit, inside string, as []string) (answer string, err error) {
	d, err := parseMillis(limit)
	if err != nil {
		return "", err
	}
	stay, err := parseMillis(inside)
	if err != nil {
		return "", err
	}
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		if err := h.cycle(path, As(as[n%len(as)]), stay); err != nil {
			return "", err
		}
	}
	return fmt.Sprint("done ", n), nil
}

// cycle locks, stays inside and unlocks.
func (h *holding) cycle(path string, as As, stay time.Duration) error {
	if _, err := h.take(path, as, -1); err != nil {
		return err
	}
	time.Sleep(stay)
	return h.giveUp()
}

func (h *holding) take(path string, as As, limit time.Duration) (string, error) {
	places := []string{path}
	if as == All {
		places = strings.Split(path, ",")
	}
	tokens, err := h.l.lock(path, as, limit)
	if err != nil {
		return "", err
	}
	if len(tokens) == 0 {
		return "busy", nil
	}
	for i, p := range places {
		if err := h.reg.Enter(register.Entry{Place: p, Token: tokens[i], Limit: as.limit()}); err != nil {
			return "", err
		}
	}
	h.in = places
	return fmt.Sprintf("held %d", tokens[0]), nil
}

func (h *holding) giveUp() error {
	for _, p := range h.in {
		if err := h.reg.Leave(p); err != nil {
			return err
		}
	}
	h.in = nil
	return h.l.unlock()
}
