package fire

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A role is what a process of the command is.
type role string

const (
	front  role = "front"
	engine role = "engine"
	guard  role = "guard"
	keeper role = "keeper"
)

// A process is one that runs.
type process struct {
	pid  int
	role role
	run  string // the number of the run that it belongs to; empty for the keeper
}

// mark is the variable of the environment by which the processes of a test are known.
const mark = "LOCKKEEPER_FIRE"

// processes returns those of the command that carry the mark of a test.
func processes(test string) []process {
	var found []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		environ, err := os.ReadFile(dir + "/environ")
		if err != nil {
			continue // it has gone, or is not ours
		}
		run, ours := strings.CutPrefix(variable(environ, mark), test+"/")
		if !ours {
			continue
		}
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		pid, _ := strconv.Atoi(filepath.Base(dir))
		p := process{pid: pid, run: run}
		switch args := strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00"); {
		case filepath.Base(args[0]) == "lk-guard":
			p.role = guard
		case filepath.Base(args[0]) != "lockkeeper" || len(args) < 2:
			continue
		case args[1] == "run":
			p.role = front
		case args[1] == "server":
			p.role, p.run = keeper, ""
		default:
			p.role = engine
		}
		found = append(found, p)
	}
	return found
}

// variable returns the value of a variable, empty if there is none.
func variable(environ []byte, name string) string {
	for _, v := range bytes.Split(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

func (p process) String() string { return fmt.Sprintf("%s of run %s (%d)", p.role, p.run, p.pid) }
