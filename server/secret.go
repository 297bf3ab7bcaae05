package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
)

// secretName is the file in DataDir with the secret that the passwords of sessions are computed with. It is made once,
// so that clients keep their sessions when the server is restarted.
const secretName = "lockkeeper.secret"

// loadSecret returns the secret of the data directory, and makes one if there is none. Without a password of its own to
// give, which is so with Options.ApachePasswords, the server makes none and returns nil.
func (s *Server) loadSecret() ([]byte, error) {
	path := filepath.Join(s.opts.DataDir, secretName)
	f, err := s.opts.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if s.opts.ApachePasswords {
			return nil, nil
		}
		return s.makeSecret(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the secret of sessions: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("read the secret of sessions: %w", err)
	}
	if size != session.SecretBytes {
		return nil, fmt.Errorf("read the secret of sessions: %s has %d bytes instead of %d (restore it from a backup, or remove it: clients then lose their sessions)",
			path, size, session.SecretBytes)
	}
	secret := make([]byte, session.SecretBytes)
	if _, err := f.ReadAt(secret, 0); err != nil {
		return nil, fmt.Errorf("read the secret of sessions: %w", err)
	}
	return secret, nil
}

// makeSecret writes a new secret. When it returns, the file survives a crash.
func (s *Server) makeSecret(path string) (secret []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the secret of sessions: %w", err)
		}
	}()
	secret = make([]byte, session.SecretBytes)
	rand.Read(secret)
	temp := path + ".tmp"
	f, err := s.opts.fs.CreatePrivate(temp)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(secret, 0)
	if err == nil {
		err = f.Datasync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err := s.opts.fs.Rename(temp, path); err != nil {
		return nil, err
	}
	return secret, s.opts.fs.SyncDir(s.opts.DataDir)
}
