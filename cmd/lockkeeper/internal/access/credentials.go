package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/lockkeeper/lockkeeper/client"
)

// credentialBytesMax is the largest file of credentials that is read.
const credentialBytesMax = 64 << 10

// credentialForm is what a line of a file of credentials has to be.
const credentialForm = "SCHEME:CREDENTIAL, as in digest:USER:PASSWORD"

// refusedLines says which lines servers are likely to have refused: they take those with digest, and a line that lacks it looks
// like one of another scheme.
func refusedLines(path string) string {
	_, others, err := readCredentials(path)
	if err != nil || len(others) == 0 {
		return ""
	}
	return "; not of the scheme digest: " + strings.Join(others, ", ")
}

// readCredentials reads a file with a credential on each line, scheme:credential. Empty lines and those that begin
// with # say nothing. No error has anything of a line in it. others are the file and number of each
// line of another scheme than digest.
//
// A file that other users may read is refused, not only warned of: a user that has read it can break every lock, it
// takes one chmod to mend, and warnings of jobs that run at night are not read. Its group may read it, because that is how
// several users are let share it.
func readCredentials(path string) (all []client.Auth, others []string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not keep us waiting
	if err != nil {
		return nil, nil, fmt.Errorf("credentials: %w", err)
	}
	defer f.Close()
	fail := func(format string, args ...any) error {
		return fmt.Errorf("credentials: %s"+format, append([]any{path}, args...)...)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("credentials: %w", err)
	case !info.Mode().IsRegular():
		return nil, nil, fail(": is not a regular file")
	case info.Mode().Perm()&0o007 != 0:
		return nil, nil, fail(": is open to other users (mode %04o): chmod o= %s", info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, credentialBytesMax+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("credentials: %w", err)
	case len(text) > credentialBytesMax:
		return nil, nil, fail(": has more than %d bytes", credentialBytesMax)
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		a, err := parseCredential(line)
		if err != nil {
			return nil, nil, fail(":%d: %w", number, err)
		}
		if a.Scheme != "" {
			all = append(all, a)
		}
		if a.Scheme != "" && a.Scheme != "digest" {
			others = append(others, fmt.Sprintf("%s:%d", path, number))
		}
	}
	if len(all) == 0 {
		return nil, nil, fail(": has no credentials")
	}
	return all, others, nil
}

// parseCredential reads a line; one that says nothing has no scheme. Blanks behind a password are part of it.
func parseCredential(line []byte) (client.Auth, error) {
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if blank := bytes.TrimSpace(line); len(blank) == 0 || blank[0] == '#' {
		return client.Auth{}, nil
	}
	scheme, credential, ok := bytes.Cut(line, []byte(":"))
	scheme = bytes.TrimSpace(scheme)
	if !ok || len(scheme) == 0 || len(credential) == 0 || strings.ContainsFunc(string(scheme), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return client.Auth{}, errors.New("want " + credentialForm)
	}
	if string(scheme) == "digest" && bytes.IndexByte(credential, ':') <= 0 {
		return client.Auth{}, errors.New("want digest:USER:PASSWORD")
	}
	return client.Auth{Scheme: string(scheme), Credential: credential}, nil
}
