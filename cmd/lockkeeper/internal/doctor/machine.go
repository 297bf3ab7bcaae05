package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The limits of what files say, and defaults of Apache ZooKeeper.
const (
	idMax            = 255
	heapShare        = 0.8
	swappinessMax    = 10
	swappedLeast     = 1 << 20
	tickDefaultMs    = 2000
	adminPortAsSet   = "8080"
	mebibyte         = 1 << 20
	heapBytesMax     = 1 << 60
	unitMebi         = 20 // bits
	unitKibi         = 10
	unitGibi         = 30
	propertyPrefix   = "zookeeper."
	mendDirectory    = "make the directory, or mend the path; the server's user has to own it"
	whatSharesMemory = "the JVM's heap, its own memory and the page cache of the log share the machine"
)

// setting returns a value of the file, or, in its place, of the options of the JVM, and where it stands.
func (m *Machine) setting(key string) (value, where string) {
	if v, ok := m.Settings[key]; ok {
		return v, m.Config
	}
	for _, f := range slices.Backward(m.Flags) {
		if v, ok := strings.CutPrefix(f.Text, "-D"+propertyPrefix+key+"="); ok {
			return v, f.Where
		}
	}
	return "", ""
}

func (m *Machine) ours() bool { return m.Process != nil && m.Process.Ours }

// files looks at the settings.
func (x *examination) files() {
	m := x.machine
	for _, err := range m.Unread {
		x.unread("config", m.Config, "mend the path", err)
	}
	if !m.ours() {
		for _, f := range m.Faults {
			x.find(Critical, "config", f.Where, "correct the line before the server is started the next time", "%s", f.Text)
		}
	}
	members := MembersOf(m.Settings)
	if len(x.Servers) == 0 {
		x.size(members)
	}
	several := slices.IndexFunc(members, func(o Member) bool { return strings.Contains(o.Servers, "|") })
	allowed := slices.ContainsFunc(m.Flags, func(f Flag) bool { return strings.EqualFold(f.Text, "-Dzookeeper.multiAddress.enabled=true") })
	if several >= 0 && !allowed && m.Process == nil { // one that runs has it
		x.find(Critical, "config", m.Config, "-Dzookeeper.multiAddress.enabled=true in SERVER_JVMFLAGS; a line in zoo.cfg does not do",
			"%s: Apache ZooKeeper does not start with several addresses of a member without an option of the JVM", members[several])
	}
	var missing []string
	for _, key := range []string{"initLimit", "syncLimit"} {
		v, isSet := m.Settings[key]
		if !isSet || v == "0" {
			missing = append(missing, key)
		}
	}
	if len(members) > 1 && len(missing) > 0 {
		x.find(Critical, "limits", m.Config, "initLimit=10 and syncLimit=5, in ticks, on all members", "%s is missing or 0: a member of an ensemble does not start without", strings.Join(missing, " and "))
	}
	if len(members) <= 1 && !m.ours() && !strings.EqualFold(m.Settings["standaloneEnabled"], "false") {
		x.find(Note, "grow", m.Config, "lockkeeper ensemble grow; or standaloneEnabled=false, reconfigEnabled=true and a server.1 line before it is needed",
			"it is one server with standaloneEnabled=true, the default: it cannot grow by reconfig")
	}
	if v, where := m.setting("snapshot.trust.empty"); isOn(v) {
		x.find(Warning, "trustempty", where, mendTrustEmpty, "snapshot.trust.empty=%s", v)
	}
	if v, where := m.setting("skipACL"); v == skipsACL && !m.ours() {
		if isOn(m.Settings["reconfigEnabled"]) {
			x.find(Critical, "reconfig", where, mendSkipACL, "skipACL=%s with reconfigEnabled=true: any client can replace the members", v)
		} else {
			x.find(Warning, "noacl", where, mendSkipACL, "skipACL=%s: all clients may do everything", v)
		}
	}
	if v, ok := m.Settings[propertyJute]; ok && !m.ours() {
		x.find(Warning, "maxbuffer", m.Config, "-Djute.maxbuffer="+v+" in SERVER_JVMFLAGS, on all servers and clients", "jute.maxbuffer=%s: Apache ZooKeeper takes it as an option of the JVM alone, and passes over this line", v)
	}
	x.adminSetting()
}

// adminSetting looks where the admin port listens.
func (x *examination) adminSetting() {
	m := x.machine
	enabled, _ := m.setting("admin.enableServer")
	address, _ := m.setting("admin.serverAddress")
	seen := slices.ContainsFunc(x.findings, func(f Finding) bool { return f.Check == "admin" })
	if m.ours() || seen || strings.EqualFold(enabled, "false") || address != "" && address != anyAddress {
		return
	}
	port, _ := m.setting("admin.serverPort")
	if port == "" {
		port = adminPortAsSet
	}
	x.find(Warning, "admin", m.Config, mendAdmin, "Apache ZooKeeper's admin port %s listens on all addresses, without a password: admin.serverAddress is %s", port, shown(address))
}

// unread tells of a file that cannot be read. The server may have permissions that doctor lacks.
func (x *examination) unread(check, where, mend string, err error) {
	if errors.Is(err, fs.ErrPermission) {
		x.find(Note, check, where, "run doctor as the server's user", "some checks were left out: %v", err)
		return
	}
	x.find(Critical, check, where, mend, "%v", err)
}

// identity looks at the number of the member.
func (x *examination) identity() {
	m := x.machine
	members := MembersOf(m.Settings)
	alone := len(members) == 0 || len(members) == 1 && !strings.EqualFold(m.Settings["standaloneEnabled"], "false")
	path, line := m.DataDir.Path+"/myid", m.MyID
	if end := strings.IndexAny(line, "\r\n"); end >= 0 {
		line = line[:end] // Apache ZooKeeper reads no further
	}
	id, err := strconv.ParseInt(line, 10, 64)
	own := slices.IndexFunc(members, func(o Member) bool { n, _ := strconv.ParseInt(o.ID, 10, 64); return n == id })
	switch {
	case m.ours(): // it has no use for the file
	case m.DataDir.Path == "" || m.DataDir.Err != nil: // which is a finding of its own
	case alone && m.MyIDErr != nil: // it needs none
	case errors.Is(m.MyIDErr, fs.ErrNotExist):
		x.find(Critical, "myid", path, "write the N of this machine's server.N line into it", "it is missing: the server does not start without")
	case m.MyIDErr != nil:
		x.unread("myid", path, "it is a file that the server's user may read", m.MyIDErr)
	case err != nil:
		x.find(Critical, "myid", path, "write the number alone into it, without blanks, the N of this machine's server.N line", "its first line is %.40q, and no number: the server does not start", line)
	case own < 0 && alone:
	case own < 0:
		x.find(Critical, "myid", path, "write the N of this machine's server.N line into it, or add the line on all members", "it is %d, and there is no server.%d: %s", id, id, lines(members))
	default:
		x.clientAddress(members[own])
		if !alone && (id < 1 || id > idMax) {
			x.find(Warning, "myid", path, "number the members from 1 to 255", "it is %d: only 1 to %d are numbers of members", id, idMax)
		}
	}
}

// clientAddress compares the two addresses for clients that this machine's member may have: of its line, and of clientPort. Names of
// hosts are not looked up.
func (x *examination) clientAddress(own Member) {
	m := x.machine
	line := "server." + own.ID + "=" + m.Settings["server."+own.ID]
	_, text, _ := strings.Cut(line, ";")
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = "", text
	}
	static := m.Settings["clientPort"]
	n, err := strconv.Atoi(static)
	inLine, errInLine := strconv.Atoi(port)
	if err != nil || errInLine != nil || n == 0 {
		return // there are no two, or one is a fault of its own
	}
	a, b := addressOf(m.Settings["clientPortAddress"]), addressOf(host)
	differ := !a.Equal(b) && (b.IsUnspecified() || a != nil && b != nil)
	if n != inLine || differ && !a.IsUnspecified() {
		x.find(Critical, "config", m.Config, "remove clientPort and clientPortAddress, or what is behind the ; of "+line,
			"clientPort=%s and clientPortAddress, which is %s, are not what %s says: Apache ZooKeeper does not start", static, shown(m.Settings["clientPortAddress"]), line)
	}
}

// addressOf returns where a port listens by a setting: everywhere if it is empty. It is nil for a name.
func addressOf(host string) net.IP {
	if host == "" {
		return net.IPv4zero
	}
	return net.ParseIP(strings.Trim(host, "[]"))
}

// disks looks at the directories.
func (x *examination) disks() {
	m := x.machine
	log := m.LogDir
	switch {
	case m.DataDir.Path == "":
		x.find(Critical, "config", m.Config, "dataDir=DIRECTORY", "dataDir is missing: the server does not start without")
		return
	case m.DataDir.Err != nil:
		x.unread("config", m.Config, mendDirectory, fmt.Errorf("dataDir: %w", m.DataDir.Err))
	case log.Err != nil:
		x.unread("config", m.Config, mendDirectory, fmt.Errorf("dataLogDir: %w", log.Err))
	case log.Device == m.DataDir.Device:
		x.find(Note, "disk", m.Config, "a disk for dataLogDir alone: each write waits for a sync of the transaction log", "the transaction log is in %s, on the disk of the snapshots", log.Path)
	}
	const key = "autopurge.purgeInterval"
	interval, isSet := m.Settings[key]
	n, err := strconv.Atoi(interval)
	if !isSet || err == nil && n <= 0 { // what is no number is a finding of its own
		x.find(Warning, "autopurge", m.Config, key+"=1, in hours, and autopurge.snapRetainCount=3", "%s is %s: snapshots and logs are kept until the disk is full", key, shown(interval))
	}
}

// memory compares the heap with the memory, and looks for swap.
func (x *examination) memory() {
	m := x.machine
	heap, where := m.heap()
	if heap == 0 {
		heap, where = m.heapShare()
	}
	if m.MemoryBytes > 0 && float64(heap) > heapShare*float64(m.MemoryBytes) {
		x.find(Warning, "heap", where, "a heap of at most three quarters of the memory (ZK_SERVER_HEAP, -Xmx): "+whatSharesMemory,
			"the heap may grow to %d MiB, and the memory is %d MiB: the machine swaps, or ends the server", heap/mebibyte, m.MemoryBytes/mebibyte)
	}
	const mend = "swapoff -a, or vm.swappiness=1: a pause for swapping is longer than session timeouts"
	switch {
	case m.Process != nil && m.Process.SwappedBytes >= swappedLeast:
		x.find(Warning, "swap", fmt.Sprintf("process %d", m.Process.PID), mend+"; then restart the server", "%d MiB of its memory are swapped out", m.Process.SwappedBytes/mebibyte)
	case m.SwapUsedBytes >= swappedLeast:
		x.find(Note, "swap", "", mend, "%d of %d MiB of swap are in use on this machine", m.SwapUsedBytes/mebibyte, m.SwapBytes/mebibyte)
	case m.SwapBytes > 0 && m.Swappiness > swappinessMax:
		x.find(Note, "swap", "", mend, "this machine has %d MiB of swap, and vm.swappiness is %d", m.SwapBytes/mebibyte, m.Swappiness)
	}
}

var heapFlag = regexp.MustCompile(`^-Xmx(\d+)([kKmMgG]?)$`)

// heap returns the most that the heap may have, and where that is said; 0 if it is not. The last option counts.
func (m *Machine) heap() (bytes int64, where string) {
	for _, f := range slices.Backward(m.Flags) {
		found := heapFlag.FindStringSubmatch(f.Text)
		if found == nil {
			continue
		}
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			return 0, ""
		}
		bits := map[string]int{"": 0, "k": unitKibi, "m": unitMebi, "g": unitGibi}[strings.ToLower(found[2])]
		return min(n, heapBytesMax>>bits) << bits, f.Where
	}
	return 0, ""
}

var heapPercentage = regexp.MustCompile(`^-XX:MaxRAMPercentage=([\d.]+)$`)

// heapShare returns the heap of a JVM that has a share of the memory; 0 if no option says so.
func (m *Machine) heapShare() (bytes int64, where string) {
	for _, f := range slices.Backward(m.Flags) {
		found := heapPercentage.FindStringSubmatch(f.Text)
		if found == nil {
			continue
		}
		if percent, err := strconv.ParseFloat(found[1], 64); err == nil {
			return int64(percent / 100 * float64(m.MemoryBytes)), f.Where
		}
	}
	return 0, ""
}
