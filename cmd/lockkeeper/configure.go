package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zoocfg"
)

// setFlag is where a setting is that the command line makes.
const setFlag = "--set"

// configure puts together what the flags and the configuration file say.
func configure(f serverFlags) (zoocfg.Config, error) {
	var settings []zoocfg.Setting
	if f.config != "" {
		var err error
		if settings, err = readSettings(f.config); err != nil {
			return zoocfg.Config{}, err
		}
	} else {
		settings = append(settings, zoocfg.Setting{Key: "admin.enableServer", Value: "false", Where: "default"})
	}
	for _, text := range f.set {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return zoocfg.Config{}, exit.Errorf(exit.Usage, "server: %s %s: not KEY=VALUE", setFlag, text)
		}
		settings = append(settings, zoocfg.Setting{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Where: setFlag})
	}
	c, err := zoocfg.Parse(settings)
	if err != nil {
		status := f.wrongConfig()
		var wrong *zoocfg.Error
		if errors.As(err, &wrong) && wrong.Where == setFlag {
			status = exit.Usage
		}
		return c, exit.Errorf(status, "server: %s", printable.Text(err.Error()))
	}
	for _, s := range c.Unknown { // in a file it is a warning; here it cannot be meant for another server
		if s.Where == setFlag {
			return c, exit.Errorf(exit.Usage, "server: %s %s: there is no such setting", setFlag, s.Key)
		}
	}
	if f.data != "" {
		c.Server.DataDir, c.Server.LogDir = f.data, ""
	}
	if f.listen != "" {
		c.Address = f.listen
	}
	switch none := c.Address == "" && c.SecureAddress == ""; {
	case c.Server.DataDir == "" && f.config != "":
		return c, exit.Errorf(exit.Config, "server: %s: dataDir is missing%s", f.config, notUnderstood(c.Unknown))
	case c.Server.DataDir == "":
		return c, exit.Errorf(exit.Usage, "server: no data directory: give --data DIR, or --config with a zoo.cfg that has dataDir")
	case none && f.config != "":
		return c, exit.Errorf(exit.Config, "server: %s: clientPort is missing, and so is secureClientPort%s", f.config, notUnderstood(c.Unknown))
	case none:
		c.Address = listenDefault
	}
	return c, nil
}

// unknownShownMax is how many lines are shown of a file that may be anything.
const unknownShownMax = 3

// notUnderstood names the lines that mean nothing, for a file in which something is missing.
func notUnderstood(unknown []zoocfg.Setting) string {
	if len(unknown) == 0 {
		return ""
	}
	var lines []string
	for _, s := range unknown[:min(len(unknown), unknownShownMax)] {
		lines = append(lines, fmt.Sprintf("%.40q (%s)", s.Key, s.Where))
	}
	text := "; not understood: " + strings.Join(lines, ", ")
	if more := len(unknown) - len(lines); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func readSettings(path string) ([]zoocfg.Setting, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer is empty
	if err != nil {
		return nil, exit.Errorf(exit.Config, "server: configuration: %w", err)
	}
	defer file.Close()
	settings, err := zoocfg.Read(path, file)
	if err != nil {
		return nil, exit.Errorf(exit.Config, "server: configuration: %w", err)
	}
	return settings, nil
}

// announce tells the operator what of a configuration is not as it might seem.
func announce(log *slog.Logger, c *zoocfg.Config) {
	list := func(settings []zoocfg.Setting) string {
		var names []string
		for _, s := range settings {
			names = append(names, s.Key+" ("+s.Where+")")
		}
		return strings.Join(names, ", ")
	}
	if len(c.Unknown) > 0 {
		log.Warn("unknown settings have no effect", "keys", list(c.Unknown))
	}
	for _, n := range c.Notes {
		log.Warn(n.String())
	}
	if len(c.Ensemble) > 0 {
		log.Info("settings of ensembles are passed over", "keys", list(c.Ensemble))
	}
	if c.Admin.Enabled && c.Admin.Host == "" {
		log.Info("the admin port is for this machine only, unlike ZooKeeper's; admin.serverAddress=0.0.0.0 opens it to all")
	}
}
