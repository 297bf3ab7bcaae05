package fourletter

import (
	"context"
	"errors"
	"strings"
)

// ErrRefused is returned for a word that the server's whitelist does not have.
var ErrRefused = errors.New("the word is not in the server's 4lw.commands.whitelist")

// refusal is what a server answers to a word that is not in its whitelist.
const refusal = "is not executed because it is not in the whitelist"

// Word sends a four-letter word over a new connection and returns the answer. The time that takes is the caller's ctx.
func Word(ctx context.Context, dial dialer, network, address, word string) (string, error) {
	text, err := exchange(ctx, dial, network, address, word)
	switch {
	case err != nil:
		return "", err
	case strings.Contains(text, refusal):
		return "", ErrRefused
	}
	return text, nil
}
