package main

import (
	"cmp"
	"os"
	"strings"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/internal/serverlist"
)

// connectionsFile is where a user gives names to servers.
func connectionsFile() string { return userFile(os.Getenv, "connections") }

// serversOf returns the servers that the user's file has for a name, or the name itself.
func serversOf(name string) (string, error) {
	named, err := namedConnections()
	return cmp.Or(named[name], name), err
}

// namedConnections reads the user's file of connections.
func namedConnections() (map[string]string, error) {
	file := connectionsFile()
	text, err := os.ReadFile(file)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, exit.Errorf(exit.Config, "connections: %w", err)
	}
	named := map[string]string{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if len(words) != 2 {
			return nil, exit.Errorf(exit.Config, "%s:%d: want NAME SERVERS, as in prod zk1:2181,zk2:2181", file, number)
		}
		err := serverlist.Check(words[1])
		if err != nil {
			return nil, exit.Errorf(exit.Config, "%s:%d: %s: %w", file, number, words[0], err)
		}
		named[words[0]] = words[1]
	}
	return named, nil
}
