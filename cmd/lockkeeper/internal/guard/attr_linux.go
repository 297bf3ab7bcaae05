package guard

import "syscall"

// childAttr has the kernel kill the child when the thread that started it ends.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
