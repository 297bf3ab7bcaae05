package clients

import (
	_ "embed"
	"regexp"
	"strings"
	"testing"
)

//go:embed testdata/zkcli.txt
var cliCommands string

// ZooKeeper's command line, once with each output apart: they are not written in step.
func TestZKCli(t *testing.T) {
	tidy := replacer(
		`(?m)^(.time = ).*`, "$1 now",
		`0x[0-9a-f]{15,16}`, "0xsession",
		`(?m)^(SLF4J|Connecting to|Welcome to|JLine).*\n`, "",
		`(?m)^digest: bob\nip: (.*)$`, "ip: $1\ndigest: bob", // identities have no order
	)
	said := sameOnBoth(t, func(s string) string { return eventsLast(tidy(s)) }, func(addr string) (string, error) {
		return run(t, cliCommands, "/bin/bash", "-c", "/usr/share/zookeeper/bin/zkCli.sh -server "+addr+" 2>/dev/null")
	})
	mustSay(t, said, "ephemeralOwner = 0xsession", "type:NodeDataChanged path:/a", "type:PersistentWatchRemoved path:/a",
		"digest: bob", "[e-0000000000, later, s-0000000001]", "type:NodeChildrenChanged path:/a", "type:NodeDeleted path:/a/one")
	said = sameOnBoth(t, tidy, func(addr string) (string, error) {
		return run(t, cliCommands, "/bin/bash", "-c", "/usr/share/zookeeper/bin/zkCli.sh -server "+addr+" 2>&1 >/dev/null")
	})
	mustSay(t, said, "Created /a/e-0000000000", "Node not empty: /a", "Node already exists: /a", "Node does not exist: /none",
		"version No is not valid", "Created /ttl", "Created /c")
}

var cliEvent = regexp.MustCompile(`(?m)^WatchedEvent .*\n`)

// eventsLast puts the events, which a thread of their own writes, behind all else. That of the end
// may come too late to be written.
func eventsLast(s string) string {
	events := strings.Join(cliEvent.FindAllString(s, -1), "")
	events = strings.ReplaceAll(events, "WatchedEvent state:Closed type:None path:null\n", "")
	rest := replacer(`(?m)^(WATCHER::)?\n`, "")(cliEvent.ReplaceAllString(s, ""))
	return rest + events
}
