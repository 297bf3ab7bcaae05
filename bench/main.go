// Command bench measures our locks beside other people's, and our server beside Apache ZooKeeper 3.8.0 as Debian
// packages it: on this machine and this disk, in one run, with fsync. Servers are compared by the same third-party
// client.
//
//	go run . all       everything below, into docs/benchmarks.md and docs/benchmarks.svg
//	go run . locks     locks: our library beside other people's, each on its engine
//	go run . floor     what a cycle of a lock is made of, from the bare machine upwards
//	go run . server    rates side by side, and what spends the processors; memory; start
//	go run . versions  rates of our server at two revisions
//	go run . curves    our server with ever more sessions, and with ever more znodes
//	go run . readers   readers of one lock beside as many mutexes
//	go run . permits   semaphores that more sessions want than there are permits
//	go run . waiters   what a waiting contender costs our server in memory
//	go run . roles     the packages beside locks: cache, discovery, group
//	go run . z         the znode commands and the shell's completion
//	go run . packages  which Debian packages are missing that it needs
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// clientGCPercent keeps the client's collector from being a part of what is measured.
const clientGCPercent = 400

func main() {
	debug.SetGCPercent(clientGCPercent)
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	each := flags.Duration("each", 3*time.Second, "how long to run a workload each time")
	switch name {
	case "all", "locks":
		rounds := flags.Int("rounds", 2*processRounds, "how often, after once to warm up")
		docs := flags.String("docs", "../docs", "where the page and the chart of all go")
		flags.Parse(args)
		return inDir(func(dir string) error {
			if name == "all" {
				return report(dir, *each/3, *rounds, *docs)
			}
			_, err := locks(dir, *each/3, *rounds, os.Stdout)
			return err
		})
	case "versions":
		base := flags.String("base", "", "a directory with the source of the other revision")
		rounds := flags.Int("rounds", 5, "how often, after once to warm up")
		flags.Parse(args)
		return inDir(func(dir string) error { return versions(dir, *base, *each, *rounds) })
	case "packages":
		for _, p := range missingPackages() {
			fmt.Println(p)
		}
		return nil
	case "server":
		znodes := flags.Int("znodes", 1_000_000, "how many znodes to measure memory with; 0 for none")
		apacheToo := flags.Bool("apache-memory", false, "measure Apache's memory, too, which takes long")
		flags.Parse(args)
		return inDir(func(dir string) error { return compare(dir, *each, *znodes, *apacheToo) })
	case "curves":
		znodes := flags.Int("znodes", 1_000_000, "the most znodes")
		sessions := flags.Int("sessions", 5000, "the most sessions")
		flags.Parse(args)
		return inDir(func(dir string) error { return curves(dir, *each, *znodes, *sessions) })
	case "permits":
		rounds := flags.Int("rounds", 5, "how often, after once to warm up")
		flags.Parse(args)
		return inDir(func(dir string) error { return permits(dir, *each/3, *rounds) })
	case "readers":
		rounds := flags.Int("rounds", 15, "how often, after once to warm up; 6 or more")
		flags.Parse(args)
		return inDir(func(dir string) error { return readers(dir, *each/3, *rounds) })
	case "floor":
		apart := flags.Bool("apart", false, "give the servers one processor and the client another (needs two)")
		flags.Parse(args)
		return inDir(func(dir string) error { return floor(dir, *each/3, *apart) })
	case "waiters":
		flags.Parse(args)
		return inDir(waiters)
	case "roles":
		rounds := flags.Int("rounds", 5, "how often a cache is loaded")
		flags.Parse(args)
		return inDir(func(dir string) error { return roles(dir, *rounds) })
	case "z":
		flags.Parse(args)
		return inDir(znodeCommands)

	// What the above start as processes of their own.
	case "echo":
		return echo(args[0])
	case "null":
		return serveNull(args[0], args[1])
	case "synced":
		return serveSynced(args[0], args[1])
	}
	fmt.Fprintln(os.Stderr, "usage: bench all|locks|floor|server|curves|readers|permits|waiters|roles|z|packages [flags]")
	os.Exit(64)
	return nil
}

// inDir makes a directory for do and removes it.
func inDir(do func(dir string) error) error {
	dir, err := os.MkdirTemp(".", "data-") // on this disk: /tmp may be in memory
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return do(dir)
}

// describe says what is measured on what.
func describe() {
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s, %d CPUs, %s, load before %s", processor(), runtime.NumCPU(), runtime.Version(), load)
	fmt.Printf("Apache ZooKeeper %s; client go-zookeeper 1.0.4, in this process\n\n", packageVersion("zookeeper"))
}

// processor returns the name of the processor.
func processor() string { return field("/proc/cpuinfo", "model name", "an unknown processor") }

// memory returns how much memory there is.
func memory() string {
	var kib float64
	if _, err := fmt.Sscan(field("/proc/meminfo", "MemTotal", ""), &kib); err != nil {
		return "an unknown amount of memory"
	}
	return fmt.Sprintf("%.1f GiB of memory", kib/(1<<20))
}

// field returns what a file says behind a name and a colon.
func field(file, name, otherwise string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return otherwise
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.Trim(value, "\t :\n")
		}
	}
	return otherwise
}

func packageVersion(pkg string) string {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", pkg).Output()
	if err != nil {
		return "of unknown version"
	}
	return string(out)
}
