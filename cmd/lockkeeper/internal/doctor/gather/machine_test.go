package gather

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
)

// write makes files below a new directory, by their paths there, and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// options returns the texts of flags.
func options(flags []doctor.Flag) string {
	var all []string
	for _, f := range flags {
		all = append(all, f.Text)
	}
	return strings.Join(all, " ")
}

const meminfo = "MemTotal:        8000000 kB\nMemFree:           10 kB\nSwapTotal:       1000 kB\nSwapFree:         400 kB\n"

func TestMachineOfFiles(t *testing.T) {
	root := write(t, map[string]string{
		"proc/meminfo": meminfo, "proc/sys/vm/swappiness": "60\n", "sys/fs/cgroup/memory.max": "max\n",
		"data/myid": "3\n", "log/version-2/log.1": "",
		"etc/default/zookeeper":  "# SERVER_JVMFLAGS=-Xmx9g\nJAVA_OPTS='-Xmx1g -Da=b'\n",
		"conf/java.env":          "export SERVER_JVMFLAGS=\"-Xms1g -Xmx3g $SERVER_JVMFLAGS\"\n",
		"conf/zookeeper-env.sh":  "ZK_SERVER_HEAP=2000\nJVMFLAGS=-Xss1m # comment\n",
		"conf/zoo.cfg.dynamic.1": "server.3=c:2888:3888:participant;2181\n",
	})
	config := filepath.Join(root, "conf", "zoo.cfg")
	text := "tickTime=1\ntickTime=2000\ndataDir=" + root + "/data\ndataLogDir=" + root + "/log\ndynamicConfigFile=" + config + ".dynamic.1\nzookeeper.snapshot.trust.empty=true\ninitLimit=abc\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := Disk{Root: root}.Machine(config)
	if err != nil {
		t.Fatal(err)
	}
	if m.Config != config || m.Settings["tickTime"] != "2000" || m.Settings["server.3"] == "" || m.Settings["snapshot.trust.empty"] != "" || len(m.Unread) > 0 {
		t.Errorf("the settings are %v, unread %v", m.Settings, m.Unread)
	}
	if len(m.Faults) != 1 || m.Faults[0].Where != config+":7" || !strings.HasPrefix(m.Faults[0].Text, "initLimit=abc: is no whole number") {
		t.Errorf("the faults are %+v", m.Faults)
	}
	if m.MyID != "3\n" || m.MyIDErr != nil || m.DataDir.Err != nil || m.LogDir.Err != nil || m.DataDir.Device == 0 || m.LogDir.Device != m.DataDir.Device {
		t.Errorf("the directories are %+v and %+v, and myid %q, %v", m.DataDir, m.LogDir, m.MyID, m.MyIDErr)
	}
	if got := options(m.Flags); got != "-Xmx2000m -Xms1g -Xmx3g $SERVER_JVMFLAGS -Xss1m -Xmx1g -Da=b" {
		t.Errorf("the options of the JVM are %q", got)
	}
	if i := slices.IndexFunc(m.Flags, func(f doctor.Flag) bool { return f.Text == "-Xmx3g" }); i < 0 || m.Flags[i].Where != filepath.Join(root, "conf", "java.env") {
		t.Errorf("they stand in %+v", m.Flags)
	}
	if m.MemoryBytes != 8000000<<10 || m.SwapBytes != 1000<<10 || m.SwapUsedBytes != 600<<10 || m.Swappiness != 60 || m.Process != nil {
		t.Errorf("the memory is %+v", m)
	}
}

// The options and the swapped memory of the server that runs are found by its process, in whatever container.
func TestMachineOfAProcess(t *testing.T) {
	root := write(t, map[string]string{
		"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "1000000\n", "sys/fs/cgroup/system.slice/zk/memory.max": "900000\n",
		"proc/1/cmdline":       "/sbin/init\x00",
		"proc/7/cmdline":       "/usr/bin/java\x00-Xmx4g\x00-Dzookeeper.skipACL=yes\x00-cp\x00a.jar\x00org.apache.zookeeper.server.quorum.QuorumPeerMain\x00/conf/zoo.cfg\x00",
		"proc/7/status":        "Name:\tjava\nVmSwap:\t    2048 kB\n",
		"proc/7/cgroup":        "0::/system.slice/zk\n",
		"proc/7/root/data/x":   "",
		"proc/8/cmdline":       "/usr/bin/keeper\x00server\x00--config\x00ours.cfg\x00",
		"proc/8/cwd/ours.cfg":  "dataDir=here\nserver.1=a:1:2\nzookeeper.snapshot.trust.empty=true",
		"proc/8/cwd/here/myid": "1",
		"conf/java.env":        "JVMFLAGS=-Xmx1g",
		"conf/zoo.cfg":         "dataDir=/data\ndataLogDir=/log\ndynamicConfigFile=/conf/dynamic",
	})
	if err := errors.Join(os.Symlink(filepath.Join(root, "conf"), filepath.Join(root, "proc/7/root/conf"))); err != nil {
		t.Fatal(err)
	}
	disk := Disk{Root: root}
	m, err := disk.Machine(filepath.Join(root, "conf", "zoo.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Process == nil || m.Process.PID != 7 || m.Process.Ours || m.Process.SwappedBytes != 2<<20 || options(m.Flags) != "-Xmx4g -Dzookeeper.skipACL=yes -cp" || m.Flags[0].Where != "process 7" {
		t.Errorf("the process is %+v, with %+v", m.Process, m.Flags)
	}
	if m.DataDir.Err != nil || m.DataDir.Path != "/data" || !errors.Is(m.LogDir.Err, fs.ErrNotExist) || !errors.Is(m.MyIDErr, fs.ErrNotExist) || len(m.Unread) != 1 || m.MemoryBytes != 900000 || m.Swappiness != -1 {
		t.Errorf("the machine is %+v", m)
	}
	m, err = disk.Machine(filepath.Join(root, "proc/8/cwd/ours.cfg"))
	if err != nil || m.Process == nil || !m.Process.Ours || m.MyID != "1" || m.Settings["snapshot.trust.empty"] != "true" {
		t.Errorf("a server of ours: %+v, %v", m, err)
	}
}

func TestMachineWithoutAFile(t *testing.T) {
	if m, err := (Disk{}).Machine(filepath.Join(t.TempDir(), "zoo.cfg")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %+v, %v", m, err)
	}
	root := write(t, map[string]string{"zoo.cfg": "dataDir=" + os.Args[0]})
	if m, err := (Disk{Root: root}).Machine(filepath.Join(root, "zoo.cfg")); err != nil || m.DataDir.Err == nil {
		t.Errorf("a data directory that is a file: %+v, %v", m, err)
	}
}
