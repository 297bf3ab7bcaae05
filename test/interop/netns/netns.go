// Package netns is a small network on one machine, for tests that break it: hosts in network namespaces
// of their own, on one bridge. All of it is in namespaces of the process that made it, so nothing of it
// can be seen from outside, and all of it is gone when that process and its children are.
//
// It needs Linux, iproute2, nftables and util-linux, and either root or user namespaces.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

const (
	bridge = "lk0"
	// gateway is the address of the process that made the network.
	gateway = "10.99.0.254"
	prefix  = "10.99.0."
	// hostsMax is how many hosts fit.
	hostsMax = 200
)

// Command returns the command that runs name with namespaces of its own, in which New works. It is killed
// should we die first.
func Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// A Network is what New made. Its methods are for one goroutine.
type Network struct{ hosts int }

// A Host is a namespace with an address.
type Host struct{ Name, Addr string }

// New makes the network. The process is its hub, with the address Hub.
func New() (*Network, error) {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE}, // what follows is ours alone
		{"tmpfs", "/run", "tmpfs", 0},                      // where ip keeps its namespaces
	} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := ip("link set lo up", "link add "+bridge+" type bridge", "address add "+gateway+"/24 dev "+bridge,
		"link set "+bridge+" up"); err != nil {
		return nil, err
	}
	n := &Network{}
	return n, n.Lose()
}

// Hub is the address at which hosts reach the process. Nothing that is lost is lost on this way.
func (n *Network) Hub() string { return gateway }

// Host adds a host.
func (n *Network) Host() (Host, error) {
	n.hosts++
	if n.hosts > hostsMax {
		return Host{}, fmt.Errorf("more than %d hosts", hostsMax)
	}
	name := fmt.Sprint("h", n.hosts)
	h := Host{name, fmt.Sprint(prefix, n.hosts)}
	near, far := "v"+name, "w"+name
	return h, ip("netns add "+name,
		"link add "+near+" type veth peer name "+far,
		"link set "+far+" netns "+name,
		"link set "+near+" master "+bridge,
		"link set "+near+" up",
		"-n "+name+" link set lo up",
		"-n "+name+" address add "+h.Addr+"/24 dev "+far,
		"-n "+name+" link set "+far+" up")
}

// Command returns the command that runs name on the host.
func (h Host) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("/usr/bin/nsenter", append([]string{"--net=/run/netns/" + h.Name, name}, args...)...)
}

// A Loss says how much of what From sends to To is lost.
type Loss struct {
	From, To Host
	Percent  int
}

// Lose sets what is lost from now on; all else arrives. What was under way is lost or not as its
// connection's next packets are.
func (n *Network) Lose(all ...Loss) error {
	var b strings.Builder
	fmt.Fprint(&b, "table bridge lk { chain way { type filter hook forward priority 0; }; }\nflush chain bridge lk way\n")
	for _, l := range all {
		chance := "" // all of it
		if l.Percent < 100 {
			chance = fmt.Sprintf("numgen random mod 100 < %d ", l.Percent)
		}
		fmt.Fprintf(&b, "add rule bridge lk way ip saddr %s ip daddr %s %sdrop\n", l.From.Addr, l.To.Addr, chance)
	}
	cmd := exec.Command("/usr/sbin/nft", "-f", "-")
	cmd.Stdin = strings.NewReader(b.String())
	return run(cmd)
}

// Delay makes everything that the host sends take a while; zero ends that. It returns ErrNoNetem on
// kernels that cannot.
func (n *Network) Delay(h Host, millis int) error {
	if millis == 0 {
		return run(exec.Command("/sbin/tc", "-n", h.Name, "qdisc", "delete", "dev", "w"+h.Name, "root"))
	}
	err := run(exec.Command("/sbin/tc", "-n", h.Name, "qdisc", "add", "dev", "w"+h.Name, "root", "netem", "delay", fmt.Sprint(millis, "ms")))
	if err != nil && strings.Contains(err.Error(), "qdisc kind is unknown") {
		return ErrNoNetem
	}
	return err
}

// ErrNoNetem: the kernel cannot delay packets.
var ErrNoNetem = errors.New("the kernel has no netem")

func ip(lines ...string) error {
	for _, l := range lines {
		if err := run(exec.Command("/bin/ip", strings.Fields(l)...)); err != nil {
			return err
		}
	}
	return nil
}

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
