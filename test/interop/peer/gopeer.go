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
	// lock acquires the lock at path, or all of those that path names, waiting no longer than limit
	// unless that is negative. There is a token for each lock, and none if that was too short.
	lock(path string, as As, limit time.Duration) (tokens []int64, err error)
	unlock() error
	close()
}

// A looker is one that can look at an election, too.
type looker interface {
	who(path string) (answer string, err error)
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
	h := &holding{l: l, reg: reg}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if f[0] == "quit" {
			break
		}
		answer, err := h.obey(f)
		if err != nil {
			answer = fmt.Sprint("error ", err)
		}
		fmt.Println(answer)
	}
	l.close()
	fmt.Println("bye")
	return nil
}
