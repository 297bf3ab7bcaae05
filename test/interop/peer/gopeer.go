package peer

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/register"
)

// kindVariable is the environment variable that makes a test binary a peer.
const kindVariable = "LOCKKEEPER_INTEROP_PEER"

// A locker is a lock client written in Go.
type locker interface {
	// lock acquires the lock at path, waiting no longer than limit unless that is negative; the
	// token is 0 if that was too short.
	lock(path string, limit time.Duration) (token int64, err error)
	unlock() error
	close()
}

// lockers makes lock clients by kind.
var lockers = map[Kind]func(servers string, timeout time.Duration) (locker, error){
	GoZookeeper: newGoZookeeper,
	Lockkeeper:  newLockkeeper,
}

// Main runs the tests of m and returns the status with which to exit. In a process that Start made
// of the test binary it runs the peer instead. It fails if packages are missing.
func Main(m *testing.M) int {
	if k := Kind(os.Getenv(kindVariable)); k != "" {
		if err := runPeer(k, os.Args[1:]); err != nil {
			fmt.Println("error", err)
			return 1
		}
		return 0
	}
	if err := apache.Require(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if dir, err := scratch(); err == nil {
			os.RemoveAll(dir)
		}
	}()
	return m.Run()
}

// again returns the command that runs this binary as a peer.
func again(k Kind) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), kindVariable+"="+string(k))
	return cmd, nil
}

// runPeer is the main function of a peer.
func runPeer(k Kind, args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("%d arguments, want servers, timeout, name and register", len(args))
	}
	millis, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	open, ok := lockers[k]
	if !ok {
		return fmt.Errorf("no such kind of peer: %s", k)
	}
	reg, err := register.Dial(args[3], args[2])
	if err != nil {
		return err
	}
	l, err := open(args[0], time.Duration(millis)*time.Millisecond)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if f[0] == "quit" {
			break
		}
		answer, err := obey(l, reg, f)
		if err != nil {
			answer = fmt.Sprint("error ", err)
		}
		fmt.Println(answer)
	}
	l.close()
	fmt.Println("bye")
	return nil
}

// obey carries out one command.
func obey(l locker, reg *register.Client, f []string) (answer string, err error) {
	switch {
	case f[0] == "lock" && len(f) == 2:
		return lockAndEnter(l, reg, f[1], -1)
	case f[0] == "try" && len(f) == 3:
		millis, err := strconv.Atoi(f[2])
		if err != nil {
			return "", err
		}
		return lockAndEnter(l, reg, f[1], time.Duration(millis)*time.Millisecond)
	case f[0] == "unlock" && len(f) == 1:
		return "released", leaveAndUnlock(l, reg)
	case f[0] == "cycle" && len(f) == 3:
		n, err := strconv.Atoi(f[2])
		for i := 0; i < n && err == nil; i++ {
			if _, err = lockAndEnter(l, reg, f[1], -1); err == nil {
				err = leaveAndUnlock(l, reg)
			}
		}
		return "done " + f[2], err
	}
	return "", fmt.Errorf("unknown command %q", f)
}

func lockAndEnter(l locker, reg *register.Client, path string, limit time.Duration) (string, error) {
	token, err := l.lock(path, limit)
	if err != nil {
		return "", err
	}
	if token == 0 {
		return "busy", nil
	}
	return fmt.Sprintf("held %d", token), reg.Enter(token)
}

func leaveAndUnlock(l locker, reg *register.Client) error {
	if err := reg.Leave(); err != nil {
		return err
	}
	return l.unlock()
}
