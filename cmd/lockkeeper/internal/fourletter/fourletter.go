// Package fourletter asks a ZooKeeper server how it is, with the four-letter word that every server
// answers.
package fourletter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// answerBytesMax limits an answer.
const answerBytesMax = 64 << 10

// Status is what a server says about itself.
type Status struct {
	Version     string  `json:"version"`
	Mode        string  `json:"mode"` // leader, follower, observer, standalone or read-only
	LatencyMin  float64 `json:"latency_min_ms"`
	LatencyAvg  float64 `json:"latency_avg_ms"`
	LatencyMax  float64 `json:"latency_max_ms"`
	Connections int     `json:"connections"`
	Outstanding int     `json:"outstanding"`
	Znodes      int     `json:"znodes"`
	Zxid        string  `json:"zxid"`     // hexadecimal
	Received    int64   `json:"received"` // packets since the server was started
}

// ErrNotServing is returned for a server that runs and has no part in an ensemble that serves.
var ErrNotServing = errors.New("not currently serving requests")

// A dialer makes connections, as net.Dialer.DialContext does.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Ask sends srvr over a new connection and reads the answer. The time that takes is the caller's ctx.
func Ask(ctx context.Context, dial dialer, network, address string) (Status, error) {
	text, err := exchange(ctx, dial, network, address, "srvr")
	if err != nil {
		return Status{}, err
	}
	s, err := parse(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", address, err)
	}
	return s, nil
}

// exchange sends a word over a new connection and returns the answer. If ctx has ended, the error says why, and not what that has done to
// the connection.
func exchange(ctx context.Context, dial dialer, network, address, word string) (string, error) {
	c, err := dial(ctx, network, address)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w", address, context.Cause(ctx))
	case err != nil:
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var text []byte
	_, err = io.WriteString(c, word)
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(c, answerBytesMax))
	}
	if ctx.Err() != nil {
		hint := ""
		if _, secure := c.(interface{ NetConn() net.Conn }); !secure && network != "unix" {
			hint = " (does this port want TLS?)"
		}
		return "", fmt.Errorf("%s: connected: %w%s", address, context.Cause(ctx), hint)
	}
	return string(text), err
}

// parse reads the answer to srvr.
func parse(text string) (Status, error) {
	var s Status
	if strings.TrimSpace(text) == "" {
		return s, errors.New("hung up without an answer: no ZooKeeper server, or one that wants TLS or has too many connections")
	}
	for line := range strings.SplitSeq(text, "\n") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		var err error
		switch key {
		case "Zookeeper version":
			s.Version, _, _ = strings.Cut(value, ",")
		case "Mode":
			s.Mode = value
		case "Latency min/avg/max":
			_, err = fmt.Sscanf(strings.ReplaceAll(value, "/", " "), "%g %g %g", &s.LatencyMin, &s.LatencyAvg, &s.LatencyMax)
			if sum := s.LatencyMin + s.LatencyAvg + s.LatencyMax; err == nil && sum-sum != 0 { // not a number, or infinite
				err = strconv.ErrRange
			}
		case "Connections":
			s.Connections, err = strconv.Atoi(value)
		case "Outstanding":
			s.Outstanding, err = strconv.Atoi(value)
		case "Received":
			s.Received, err = strconv.ParseInt(value, 10, 64)
		case "Node count":
			s.Znodes, err = strconv.Atoi(value)
		case "Zxid":
			s.Zxid = value
		}
		if err != nil {
			return s, fmt.Errorf("answered %q", line)
		}
	}
	if strings.Contains(text, ErrNotServing.Error()) {
		return s, ErrNotServing
	}
	if strings.Contains(text, refusal) {
		return s, ErrRefused
	}
	if s.Mode == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		return s, fmt.Errorf("answered %.200q", first)
	}
	return s, nil
}
