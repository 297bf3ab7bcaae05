package gather

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zoocfg"
)

// Disk reads files of a machine.
type Disk struct {
	Root string // before /proc, /sys and /etc; empty on a real machine
}

const (
	propertyPrefix = "zookeeper."
	kibibyte       = 1 << 10
)

// Machine reads a configuration file and what it leads to. The error is that of the file.
func (d Disk) Machine(config string) (*doctor.Machine, error) {
	config, err := filepath.Abs(config)
	if err != nil {
		return nil, err
	}
	m := &doctor.Machine{Config: config, Settings: map[string]string{}}
	static, err := addSettings(m, config)
	if err != nil {
		return nil, err
	}
	var members []zoocfg.Setting
	process := d.process(config)
	place := func(path string) string { return seenFrom(process, path) }
	if dynamic := m.Settings["dynamicConfigFile"]; dynamic != "" {
		members, err = addSettings(m, place(dynamic))
		if err != nil {
			m.Unread = append(m.Unread, fmt.Errorf("dynamicConfigFile: %w", err))
		}
	}
	for _, wrong := range zoocfg.Faults(static, members) {
		m.Faults = append(m.Faults, doctor.Fault{Text: wrong.Text(), Where: wrong.Where})
	}
	data := m.Settings["dataDir"]
	m.DataDir = directory(data, place(data))
	m.LogDir = m.DataDir
	if log := m.Settings["dataLogDir"]; log != "" {
		m.LogDir = directory(log, place(log))
	}
	if data != "" {
		text, err := os.ReadFile(filepath.Join(place(data), "myid"))
		m.MyID, m.MyIDErr = string(text), err
	}
	d.memory(m)
	m.Flags = d.flagsOfFiles(filepath.Dir(config))
	if process != "" {
		d.running(m, process)
	}
	if m.Process != nil && m.Process.Ours {
		for _, s := range static { // Apache ZooKeeper would put the prefix in front once more, and not find the property
			m.Settings[strings.TrimPrefix(s.Key, propertyPrefix)] = s.Value
		}
	}
	return m, nil
}

// addSettings adds the settings of a properties file, and returns them. Of a key that comes twice the last one counts.
func addSettings(m *doctor.Machine, path string) ([]zoocfg.Setting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	settings, err := zoocfg.Read(path, f)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		m.Settings[s.Key] = s.Value
	}
	return settings, nil
}

// directory looks at a directory, at the place where it is seen from here.
func directory(path, place string) doctor.Dir {
	d := doctor.Dir{Path: path}
	if path == "" {
		return d
	}
	info, err := os.Stat(filepath.Join(place, "version-2")) // which may be a mount of its own
	if err != nil {
		info, err = os.Stat(place)
	}
	if err != nil {
		d.Err = err
		return d
	}
	if !info.IsDir() {
		d.Err = &os.PathError{Op: "stat", Path: place, Err: syscall.ENOTDIR}
		return d
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		d.Device = uint64(stat.Dev)
	}
	return d
}

// memory reads how much memory and swap there is. What cannot be read stays unknown.
func (d Disk) memory(m *doctor.Machine) {
	values := d.table("/proc/meminfo")
	m.MemoryBytes = values["MemTotal"]
	m.SwapBytes, m.SwapUsedBytes = values["SwapTotal"], values["SwapTotal"]-values["SwapFree"]
	m.Swappiness = -1
	if n, ok := d.integer("/proc/sys/vm/swappiness"); ok {
		m.Swappiness = int(n)
	}
	d.limitMemory(m, "")
}

// limitMemory heeds the limit of a control group.
func (d Disk) limitMemory(m *doctor.Machine, group string) {
	if limit, ok := d.integer("/sys/fs/cgroup" + group + "/memory.max"); ok && limit > 0 && (m.MemoryBytes == 0 || limit < m.MemoryBytes) {
		m.MemoryBytes = limit
	}
}

func (d Disk) integer(path string) (int64, bool) {
	text, err := os.ReadFile(d.Root + path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// table reads the lines "Name:  N kB" of a file of /proc, in bytes.
func (d Disk) table(path string) map[string]int64 {
	all := map[string]int64{}
	text, err := os.ReadFile(d.Root + path)
	if err != nil {
		return all
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			all[name] = n * kibibyte
		}
	}
	return all
}
