package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Adopt makes this process the parent of all its descendants whose parent has died.
func Adopt() error {
	return os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// Rename changes the name under which this process is listed, if it is called in the main thread.
func Rename(name string) {
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(unsafe.SliceData(append([]byte(name), 0)))), 0, 0, 0)
}

// looksMax is how often Table looks at a machine on which processes are started all the time.
const looksMax = 20

// procDir is where the kernel shows processes.
const procDir = "/proc"

// Table returns the processes of this machine, as far as they can be seen. One may start another and end while
// we look, so we look again until there is none new.
func Table() ([]Process, error) {
	if err := numbersAsOurs(procDir); err != nil {
		return nil, err
	}
	var table []Process
	seen := make(map[string]bool)
	for range looksMax {
		names, err := pids()
		if err != nil {
			return nil, err
		}
		before := len(seen)
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			stat, err := os.ReadFile("/proc/" + name + "/stat")
			if err != nil {
				continue // ended meanwhile
			}
			if p, err := parseStat(stat); err == nil {
				table = append(table, p)
			}
		}
		if len(seen) == before {
			break
		}
	}
	return table, nil
}

// numbersAsOurs returns an error unless dir shows us under the number that we know ourselves by. It does not where
// nothing is mounted, or what is mounted is of another process namespace, whose numbers mean other processes to us.
func numbersAsOurs(dir string) error {
	self, err := os.Readlink(dir + "/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("%s is not that of this process namespace: %w", dir, errors.ErrUnsupported)
	}
	return nil
}

// pids returns the numbers of the processes that there are.
func pids() ([]string, error) {
	dir, err := os.Open(procDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' }), err
}

// parseStat reads /proc/<pid>/stat. The name of the program stands in brackets and may itself hold
// brackets and blanks, so the last bracket counts.
func parseStat(stat []byte) (Process, error) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("process status %q: no program name", stat)
	}
	fields := bytes.Fields(stat[end+1:])
	const state, parent, group, session, threads, start = 0, 1, 2, 3, 17, 19
	if len(fields) <= start {
		return Process{}, fmt.Errorf("process status %q: %d fields", stat, len(fields))
	}
	p := Process{State: fields[state][0]}
	var errs [6]error
	p.Pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	p.Parent, errs[1] = strconv.Atoi(string(fields[parent]))
	p.Group, errs[2] = strconv.Atoi(string(fields[group]))
	p.Session, errs[3] = strconv.Atoi(string(fields[session]))
	p.Start, errs[4] = strconv.ParseUint(string(fields[start]), 10, 64)
	p.Threads, errs[5] = strconv.Atoi(string(fields[threads]))
	return p, errors.Join(errs[:]...)
}

// Find returns the process with a number. It has to live.
func Find(pid int) (Process, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) {
		return Process{}, errors.New("there is no such process")
	}
	if err != nil {
		return Process{}, err
	}
	p, err := parseStat(stat)
	if err == nil && p.Dead() {
		err = errors.New("the process has ended")
	}
	return p, err
}

// Lives reports whether a process that Find has returned has not ended. What cannot be read counts as alive.
func Lives(p Process) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/stat")
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	now, err := parseStat(stat)
	return err != nil || now.Start == p.Start && !now.Dead()
}

// Signal sends a signal to a process of an earlier Table, and to no other that has its number now:
// the descriptor pins the process, and then we look whether it is the one that was meant.
func Signal(p Process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil: // a kernel before 5.3
		return os.NewSyscallError("kill", syscall.Kill(p.Pid, sig))
	}
	defer unix.Close(fd)
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/stat")
	if err != nil {
		return nil // ended
	}
	if now, err := parseStat(stat); err != nil || now.Start != p.Start {
		return err
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// SameProgram reports whether p runs the program file that we run.
func SameProgram(p Process) bool {
	ours, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	theirs, err := os.Stat("/proc/" + strconv.Itoa(p.Pid) + "/exe")
	return err == nil && os.SameFile(ours, theirs)
}

// Args returns the command line of p, or nothing if it has ended.
func Args(p Process) []string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/cmdline")
	if err != nil {
		return nil
	}
	var args []string
	for _, arg := range bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return args
}

// Env returns the environment with which p was started, "NAME=value" each. It is not known for the moment in which p
// executes a program, or ends: the kernel shows an empty one then. What runs as another user cannot be read, and has none.
func Env(p Process) (vars []string, known bool) {
	dir := "/proc/" + strconv.Itoa(p.Pid)
	env, err := readAtOnce(dir + "/environ")
	if err != nil {
		return nil, true
	}
	if len(env) == 0 {
		stat, err := os.ReadFile(dir + "/stat")
		return nil, err != nil || !lacksEnv(stat)
	}
	for _, v := range bytes.Split(bytes.TrimSuffix(env, []byte{0}), []byte{0}) {
		vars = append(vars, string(v))
	}
	return vars, true
}

// readAtOnce returns what a file holds, from one read. Between two reads of a process's environment the process may execute
// another program; the kernel then ends the file there.
func readAtOnce(name string) ([]byte, error) {
	for size := 64 << 10; ; size *= 4 {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		b := make([]byte, size)
		n, err := f.Read(b)
		f.Close()
		if err != nil && err != io.EOF {
			return nil, err
		}
		if n < size {
			return b[:n], nil
		}
	}
}

// lacksEnv reports whether the status is of a process that has not got an environment yet, or not any more, or that has
// got one meanwhile. One that was started with none, a zombie and a thread of the kernel have what they will ever have.
func lacksEnv(stat []byte) bool {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const state, flags, startCode, envStart, envEnd = 0, 6, 23, 47, 48 // proc_pid_stat(5), less 3

	const kernelThread = 0x00200000 // PF_KTHREAD
	if len(fields) <= envEnd || bytes.ContainsAny(fields[state], "ZXx") {
		return false
	}
	if f, err := strconv.ParseUint(string(fields[flags]), 10, 64); err != nil || f&kernelThread != 0 {
		return false
	}
	return string(fields[startCode]) == "0" || !bytes.Equal(fields[envStart], fields[envEnd])
}
