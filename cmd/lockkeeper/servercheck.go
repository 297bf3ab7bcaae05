package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

func newServerCheck() *cobra.Command {
	var logDir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "check DIR",
		Example: "  lockkeeper server check /var/lib/lockkeeper",
		Short:   "Show what is in a data directory, and what is broken",
		Long: `Read a data directory of this server or of Apache ZooKeeper from end to end, and
show its snapshots and transaction logs. Nothing is changed. While a server is at
work there the newest log may look torn.

A log is torn where a crash has cut a write off: nothing behind that place was
acknowledged, and the next start cuts it. Everything else that cannot be read is
damage.

Exit status: 0 all is whole, 1 something is damaged, or a server would not start
from it, 73 the directory cannot be read.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := check(args[0], logDir)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = printTable(cmd.OutOrStdout(), report.table())
			}
			return errors.Join(err, report.verdict())
		},
	}
	cmd.Flags().StringVar(&logDir, "log-dir", "", "where the logs are, if they are apart (dataLogDir)")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// A checkReport is what is in a directory, as JSON shows it. Zxids are hexadecimal, as in the names of
// files.
type checkReport struct {
	Dir       string         `json:"dir"`
	Sound     bool           `json:"sound"` // nothing is damaged, and a server would start
	Zxid      string         `json:"zxid"`  // of the last transaction
	Replay    int            `json:"replay"`
	Snapshot  string         `json:"snapshot,omitempty"` // that a server would load
	Error     string         `json:"error,omitempty"`    // why a server would not start
	Snapshots []snapshotLine `json:"snapshots"`
	Logs      []logLine      `json:"logs"`
}

type snapshotLine struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Zxid     string `json:"zxid"`
	Znodes   int    `json:"znodes"`
	Sessions int    `json:"sessions"`
	Damage   string `json:"damage,omitempty"`
}

type logLine struct {
	Path         string `json:"path"`
	Bytes        int64  `json:"bytes"`
	UsedBytes    int64  `json:"used_bytes"`
	First        string `json:"first,omitempty"`
	Last         string `json:"last,omitempty"`
	Transactions int    `json:"transactions"`
	Gaps         int    `json:"gaps,omitempty"`      // places where zxids are missing
	Torn         bool   `json:"torn,omitempty"`      // by a crash; harmless
	Damage       string `json:"damage,omitempty"`    // also where it is torn
	DamageAt     *int64 `json:"damage_at,omitempty"` // offset in the file
}

// check reads a directory.
func check(dir, logDir string) (*checkReport, error) {
	if _, err := os.Stat(filepath.Join(dir, "version-2")); err != nil {
		return nil, exit.Errorf(exit.CannotCreate, "server check: %s: no data directory that can be read: %w", dir, err)
	}
	found, err := store.Check(vfs.OS{}, store.Options{DataDir: dir, LogDir: logDir})
	if err != nil {
		return nil, exit.Errorf(exit.CannotCreate, "server check: %w", err)
	}
	r := &checkReport{
		Dir: dir, Sound: found.Err == nil, Zxid: zxidText(found.Found.Zxid), Replay: found.Found.Txns, Snapshot: found.Found.Snapshot,
		Snapshots: []snapshotLine{}, Logs: []logLine{},
	}
	if found.Err != nil {
		r.Error = found.Err.Error()
	}
	for _, s := range found.Snapshots {
		line := snapshotLine{Path: s.Path, Bytes: s.Bytes, Zxid: zxidText(s.Zxid), Znodes: s.Nodes, Sessions: s.Sessions}
		if s.Err != nil {
			r.Sound, line.Damage = false, s.Err.Error()
		}
		r.Snapshots = append(r.Snapshots, line)
	}
	for _, l := range found.Logs {
		line := logLine{Path: l.Path, Bytes: l.Bytes, UsedBytes: l.UsedBytes, Transactions: l.Txns, Gaps: l.Gaps, Torn: l.Torn}
		if l.Txns > 0 {
			line.First, line.Last = zxidText(l.First), zxidText(l.Last)
		}
		if d := l.Damage; d != nil {
			r.Sound = r.Sound && l.Torn
			line.Damage = d.What
			if d.Offset >= 0 {
				line.DamageAt = &d.Offset
			}
		}
		r.Logs = append(r.Logs, line)
	}
	return r, nil
}

func zxidText(zxid int64) string { return fmt.Sprintf("0x%x", zxid) }

// table shows a report to people.
func (r *checkReport) table() [][]string {
	rows := [][]string{{"FILE", "FIRST", "LAST", "CONTENT", "BYTES", "STATE"}}
	for _, s := range r.Snapshots {
		state := "whole"
		if s.Damage != "" {
			state = "DAMAGED: " + s.Damage
		}
		rows = append(rows, []string{filepath.Base(s.Path), "", s.Zxid, fmt.Sprintf("%d znodes, %d sessions", s.Znodes, s.Sessions), strconv.FormatInt(s.Bytes, 10), state})
	}
	for _, l := range r.Logs {
		state := "whole"
		if l.Damage != "" {
			state = "DAMAGED"
			if l.Torn {
				state = "torn by a crash"
			}
			if l.DamageAt != nil {
				state += fmt.Sprintf(" at byte %d", *l.DamageAt)
			}
			state += ": " + l.Damage
		}
		if l.Gaps > 0 {
			state += fmt.Sprintf(" (zxids are missing in %d places)", l.Gaps)
		}
		rows = append(rows, []string{filepath.Base(l.Path), l.First, l.Last, fmt.Sprintf("%d transactions", l.Transactions), strconv.FormatInt(l.UsedBytes, 10), state})
	}
	return rows
}

// verdict sums a report up: nil if all is whole.
func (r *checkReport) verdict() error {
	switch {
	case r.Error != "":
		return exit.Errorf(exit.Failure, "server check: a server would not start from %s: %s", r.Dir, r.Error)
	case !r.Sound:
		return exit.Errorf(exit.Failure, "server check: %s has damage; a server would start all the same, from %s, with zxid %s", r.Dir, filepath.Base(r.Snapshot), r.Zxid)
	}
	return nil
}
