package server

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Version is the release of ZooKeeper that the server's protocol, answers and files are those of.
const Version = "3.9.3"

// VersionText returns the version in the shape that monitoring expects: number, build, date.
var VersionText = sync.OnceValue(func() string {
	revision, date := "lockkeeper", "1970-01-01 00:00 UTC"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range info.Settings {
			if kv.Key != "vcs.time" {
				continue
			}
			if t, err := time.Parse(time.RFC3339, kv.Value); err == nil {
				date = t.UTC().Format("2006-01-02 15:04 MST")
			}
		}
	}
	return Version + "-" + revision + ", built on " + date
})

// A Field is a name and a value: a string, an int64 or a float64.
type Field struct {
	Name  string
	Value any
}

// Environment returns what the server runs in, under the names and in the order that ZooKeeper has
// for it. Where those name a Java that is not there, go.version stands. No reader of those fields is known.
// What the system does not report is left out.
func Environment() []Field {
	fields := []Field{{"zookeeper.version", VersionText()}}
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, Field{name, value})
		}
	}
	host, _ := os.Hostname()
	add("host.name", host)
	add("go.version", runtime.Version())
	add("os.name", javaName(runtime.GOOS, map[string]string{"linux": "Linux", "darwin": "Mac OS X", "freebsd": "FreeBSD", "windows": "Windows"}))
	add("os.arch", javaName(runtime.GOARCH, map[string]string{"arm64": "aarch64", "386": "i386"}))
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	add("os.version", string(bytes.TrimSpace(release)))
	if u, err := user.Current(); err == nil {
		add("user.name", u.Username)
		add("user.home", u.HomeDir)
	}
	dir, _ := os.Getwd()
	add("user.dir", dir)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	add("os.memory.free", megabytes(mem.HeapIdle-mem.HeapReleased))
	add("os.memory.max", megabytes(memoryMax()))
	add("os.memory.total", megabytes(mem.Sys-mem.HeapReleased))
	return fields
}

// javaName is what Java calls what Go calls name.
func javaName(name string, names map[string]string) string {
	if java, ok := names[name]; ok {
		return java
	}
	return name
}

func megabytes(n uint64) string { return fmt.Sprintf("%dMB", n>>20) }

// memoryMax is GOMEMLIMIT; without one, as in Java, the largest number.
func memoryMax() uint64 { return min(uint64(debug.SetMemoryLimit(-1)), math.MaxInt64) }

// oneLine keeps what comes from the system or the configuration from looking like more lines than
// it is.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
