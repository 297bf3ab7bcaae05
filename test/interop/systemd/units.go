//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sessionTimeout is that of the locks of the check, in place of the 30 s of the unit.
const sessionTimeout = 9 * time.Second

// stubs are the targets that all services depend on. Those of the machine would bring its services along.
var stubs = []string{"sysinit.target", "basic.target", "shutdown.target", "multi-user.target", "network-online.target", "check.target"}

// units are written beside those of packaging.
var units = map[string]string{
	"service.d/check.conf": `[Service]
StandardOutput=append:` + inside + `/services.log
StandardError=inherit
Environment=LOCKKEEPER_CONFIG=` + inside + `/client.conf
`,
	"check.service": `[Service]
ExecStart=` + inside + `/check inside
`,
	"check.service.d/out.conf": `[Service]
StandardOutput=append:` + inside + `/out
`,

	// The service of docs/operations.md, which takes longer to stop than it has.
	"orders.service": `[Unit]
BindsTo=lockkeeper-lock@orders.service
After=lockkeeper-lock@orders.service

[Service]
ExecStart=sh -c 'trap "sleep 100" TERM; while :; do sleep 0.1; done'
TimeoutStopSec=1800ms
`,
	// The same on another machine: what is one unit for each machine has two names here.
	"second.service": `[Unit]
BindsTo=lock-elsewhere.service
After=lock-elsewhere.service

[Service]
ExecStart=sleep infinity
`,
	"upholds.target": `[Unit]
Upholds=orders.service
`,

	// Units of docs/operations.md in which lockkeeper starts the program.
	"scheduler.service": `[Service]
ExecStart=/usr/bin/lockkeeper elect scheduler -- sleep infinity
KillMode=mixed
SuccessExitStatus=143
`,
	"notifies.service": `[Service]
Type=notify
NotifyAccess=all
ExecStart=/usr/bin/lockkeeper run notifies -- sh -c 'systemd-notify --ready && exec sleep infinity'
KillMode=mixed
SuccessExitStatus=143
`,
}

// writeUnits writes all units into the directory of the check, with the paths of the check in place of the machine's.
func writeUnits(dir, packaging string) error {
	files := map[string]string{"client.conf": "servers = 127.0.0.1:2181\n"}
	for _, name := range stubs {
		files["units/"+name] = "[Unit]\nDefaultDependencies=no\n"
	}
	files["units/check.target"] += "Wants=check.service\n"
	for name, text := range units {
		files["units/"+name] = text
	}
	for _, name := range []string{"lockkeeper.service", "lockkeeper-lock@.service", "zoo.cfg"} {
		b, err := os.ReadFile(filepath.Join(packaging, name))
		if err != nil {
			return err
		}
		files["units/"+name] = string(b)
	}
	files["zoo.cfg"] = files["units/zoo.cfg"]
	delete(files, "units/zoo.cfg")
	lock := strings.Replace(files["units/lockkeeper-lock@.service"], "ExecStart=/usr/bin/lockkeeper run ", "ExecStart=/usr/bin/lockkeeper run --session-timeout "+sessionTimeout.String()+" ", 1)
	files["units/lockkeeper-lock@.service"] = lock
	files["units/lock-elsewhere.service"] = strings.ReplaceAll(lock, "%i", "orders")
	here := strings.NewReplacer("/usr/bin/lockkeeper", inside+"/lockkeeper", "/etc/lockkeeper/", inside+"/")
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(here.Replace(text)), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755) // for services with users of their own
}
