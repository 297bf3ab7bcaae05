package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/lockkeeper/lockkeeper/bench/peers"
)

// parts are the commands whose output goes into the report as it is, after the locks.
var parts = []struct{ title, command string }{
	{"What a cycle is made of", "floor"},
	{"The server alone", "server"},
	{"More sessions, more znodes", "curves"},
	{"What a waiting contender costs the server", "waiters"},
}

const reportHead = `# Benchmarks

This page is written by ` + "`make bench`" + ` and not by hand. A cycle is taking a mutex and giving it back. Everything runs on
this one machine, over loopback, in one run, by turns; a figure is the median of its rounds. Every engine syncs every
write to the disk before it is answered. The measuring process shares the processors with the servers.

`

// report measures everything and writes a page and a chart into the folder docs.
func report(dir string, each time.Duration, rounds int, docs string) error {
	var page bytes.Buffer
	page.WriteString(reportHead)
	fmt.Fprintf(&page, "Machine: %s, %d CPUs, %s, %s. Run on %s.\n\n", processor(), runtime.NumCPU(), memory(), runtime.Version(), time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintf(&page, "## Locks\n\n![cycles per second](benchmarks.svg)\n\n| library | version | on | set up |\n|---|---|---|---|\n")
	for _, l := range peers.Libraries {
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", l.Name, l.Version(), engineNames[l.Engine], orDefault(l.Tuned))
	}
	fmt.Fprintf(&page, "\nEngines: Apache ZooKeeper %s, etcd %s, Redis %s, as Debian packages them.\n",
		packageVersion("zookeeper"), packageVersion("etcd-server"), packageVersion("redis-server"))
	cells, err := locks(dir, each, rounds, io.MultiWriter(&page, os.Stdout))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, p := range parts {
		fmt.Fprintf(&page, "\n## %s\n\n```\n", p.title)
		cmd := exec.Command(self, p.command)
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&page, os.Stdout), os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", p.command, err)
		}
		page.WriteString("```\n")
	}
	if err := os.WriteFile(filepath.Join(docs, "benchmarks.svg"), chart(cells), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "benchmarks.md"), page.Bytes(), 0o644)
}

func orDefault(s string) string {
	if s == "" {
		return "as it comes"
	}
	return s
}
