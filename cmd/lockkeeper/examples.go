package main

import "github.com/spf13/cobra"

// examples are shown in the help of the commands that do not have their own, by name.
var examples = map[string]string{
	"elect": `  lockkeeper elect scheduler -- ./scheduler
  lockkeeper elect --restart on-failure --id 10.0.0.7:8080 web -- ./web --port 8080`,
	"locks": `  lockkeeper locks                  # all named locks and elections in use
  lockkeeper locks nightly-backup
  lockkeeper locks --watch --json`,
	"break": `  lockkeeper break nightly-backup
  lockkeeper break --force /apps/web/lock`,
	"revoke": `  lockkeeper revoke nightly-backup`,
	"slots":  `  lockkeeper slots gpu 4`,
	"server": `  lockkeeper server --data /var/lib/lockkeeper --listen 127.0.0.1:2181
  lockkeeper server --config /etc/zookeeper/conf/zoo.cfg`,
	"status": `  lockkeeper status
  lockkeeper status zk1:2181,zk2:2181,zk3:2181`,
	"bench": `  lockkeeper bench --servers zk1:2181,zk2:2181,zk3:2181`,
	"doctor": `  lockkeeper doctor --servers zk1:2181,zk2:2181,zk3:2181
  lockkeeper doctor --deep --json zk1:2181 zk2:2181 zk3:2181
  lockkeeper doctor --config /etc/zookeeper/conf/zoo.cfg   # on each member's machine`,
	"shell": `  lockkeeper shell --servers zk1:2181`,
	"config": `  lockkeeper config set orders '{"rate": 10}'
  lockkeeper config get orders
  lockkeeper config watch orders --exec 'cat > orders.json'`,
	"register": `  lockkeeper register orders --port 8080 -- ./orders
  lockkeeper register orders --port 8080 --check http://localhost:8080/health -- ./orders`,
	"discover": `  lockkeeper discover orders
  lockkeeper discover orders --watch --json`,
	"join":    `  lockkeeper join workers -- ./worker`,
	"members": `  lockkeeper members workers --watch`,
	"version": `  lockkeeper version --json`,
}

// addExamples gives the commands below root their examples.
func addExamples(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Example == "" {
			cmd.Example = examples[cmd.Name()]
		}
	}
}
