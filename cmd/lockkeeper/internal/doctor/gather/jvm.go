package gather

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ensemble"
)

// variables have options of the JVM, in the order in which ZooKeeper's scripts put them together.
var variables = []string{"ZK_SERVER_HEAP", "SERVER_JVMFLAGS", "JVMFLAGS", "JAVA_OPTS"}

// assignment is a line of a file that a shell reads.
var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Z_]+)=(?:"([^"]*)"|'([^']*)'|(\S*))`)

// flagsOfFiles reads the files from which ZooKeeper's scripts take the options of the JVM.
func (d Disk) flagsOfFiles(dir string) (flags []doctor.Flag) {
	type value struct{ text, where string }
	found := map[string][]value{}
	for _, path := range []string{
		d.Root + "/etc/default/zookeeper",
		filepath.Join(dir, "environment"), filepath.Join(dir, "zookeeper-env.sh"), filepath.Join(dir, "java.env"),
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if m := assignment.FindStringSubmatch(line); m != nil {
				found[m[1]] = append(found[m[1]], value{m[2] + m[3] + m[4], path})
			}
		}
	}
	for _, name := range variables {
		for _, v := range found[name] {
			if _, err := strconv.Atoi(v.text); err == nil && name == variables[0] {
				v.text = "-Xmx" + v.text + "m"
			}
			for _, option := range strings.Fields(v.text) {
				flags = append(flags, doctor.Flag{Text: option, Where: v.where})
			}
		}
	}
	return flags
}

// process returns the directory in /proc of the server that runs with a configuration file; empty if there is none to
// be seen.
func (d Disk) process(config string) string {
	own, err := os.Stat(config)
	if err != nil {
		return ""
	}
	all, err := filepath.Glob(d.Root + "/proc/[0-9]*")
	if err != nil {
		return ""
	}
	for _, process := range all {
		line, err := os.ReadFile(filepath.Join(process, "cmdline"))
		if err != nil {
			continue
		}
		file := configOf(line)
		if file == "" {
			continue
		}
		if info, err := os.Stat(seenFrom(process, file)); err == nil && os.SameFile(info, own) {
			return process
		}
	}
	return ""
}

// configOf returns the configuration file in the command line of a server; empty for other programs.
func configOf(cmdline []byte) string {
	if args := ensemble.ServerArgs(cmdline); len(args) == 1 {
		return args[0]
	}
	args := arguments(cmdline)
	if !ours(args) {
		return ""
	}
	for i, a := range args {
		if file, ok := strings.CutPrefix(a, "--config="); ok {
			return file
		}
		if a == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

func arguments(cmdline []byte) []string {
	return strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
}

// ours reports whether a command line may be that of lockkeeper server, by whatever name the program goes.
func ours(args []string) bool {
	return len(args) > 1 && args[1] == "server"
}

// seenFrom returns a path as this process reaches it that is meant in another one, in /proc; empty means this one. A
// process in a container has other directories. Without root they cannot be seen, and ours are as good as any.
func seenFrom(process, path string) string {
	if process == "" {
		return path
	}
	candidate := filepath.Join(process, "root", path)
	if !filepath.IsAbs(path) {
		candidate = filepath.Join(process, "cwd", path)
	}
	if _, err := os.Stat(candidate); err == nil {
		return candidate
	}
	return path
}

// running adds what a process tells: the options that it runs with count in place of those of the files.
func (d Disk) running(m *doctor.Machine, process string) {
	pid, err := strconv.Atoi(filepath.Base(process))
	if err != nil {
		return
	}
	line, err := os.ReadFile(filepath.Join(process, "cmdline"))
	if err != nil {
		return
	}
	args := arguments(line)
	m.Process = &doctor.Process{PID: pid, Ours: ours(args), SwappedBytes: d.table("/proc/" + strconv.Itoa(pid) + "/status")["VmSwap"]}
	if groups, err := os.ReadFile(filepath.Join(process, "cgroup")); err == nil {
		for line := range strings.Lines(string(groups)) {
			if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok {
				d.limitMemory(m, "/"+group)
			}
		}
	}
	m.Flags = nil
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "-") {
			m.Flags = append(m.Flags, doctor.Flag{Text: a, Where: "process " + strconv.Itoa(pid)})
		}
	}
}
