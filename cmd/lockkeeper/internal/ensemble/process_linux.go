package ensemble

import "syscall"

// attributes are those of a member's process. One that is brief dies with this process; another has a session of its own, so that
// the terminal's signals do not reach it.
func attributes(brief bool) *syscall.SysProcAttr {
	if brief {
		return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	return &syscall.SysProcAttr{Setsid: true}
}
