package fourletter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// ErrRefused is returned for a word that the server's whitelist does not have.
var ErrRefused = errors.New("the word is not in the server's 4lw.commands.whitelist")

// refusal is what a server answers to a word that is not in its whitelist.
const refusal = "is not executed because it is not in the whitelist"

// Word sends a four-letter word over a new connection and returns the answer. The time that takes is the caller's ctx.
func Word(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), network, address, word string) (string, error) {
	c, err := dial(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(c, answerBytesMax))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %s: %w", address, word, context.Cause(ctx))
	case err != nil:
		return "", err
	case strings.Contains(string(text), refusal):
		return "", ErrRefused
	}
	return string(text), nil
}
