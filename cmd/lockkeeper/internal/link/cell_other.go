//go:build !linux

package link

import "os"

// anonymousFile returns a file that has lost its name.
func anonymousFile() (*os.File, error) {
	f, err := os.CreateTemp("", "lockkeeper-deadline-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}
