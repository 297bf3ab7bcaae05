package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
)

// A roleLog says what a command that runs for long tells on standard error. What the user should know is a warning; the
// changes of the session are of the level info. A nil roleLog tells what the user should know.
type roleLog struct {
	logFormat
	quiet bool
}

// addTo adds the flags to a command.
func (l *roleLog) addTo(cmd *cobra.Command) {
	l.logFormat.addTo(cmd)
	level := cmd.Flags().Lookup("log-level")
	level.DefValue, l.level = "warn", slog.LevelWarn
	level.Usage = "the least `level` that is logged: debug, info (with what becomes of the session), warn or error"
	cmd.Flags().BoolVarP(&l.quiet, "quiet", "q", false, "say nothing but why the command fails")
}

// notice tells the user something that --quiet leaves out.
func (l *roleLog) notice(text string) {
	if !l.silent() {
		l.say(slog.LevelWarn, text)
	}
}

// inform tells the user something that is told at the level info alone.
func (l *roleLog) inform(text string) {
	if !l.silent() {
		l.say(slog.LevelInfo, text)
	}
}

// informOfEnd is inform of the end of the command that has run while name was held.
func (l *roleLog) informOfEnd(name string, out front.Outcome) {
	if out.Child != nil {
		l.inform(fmt.Sprintf("%s: the command has ended with status %d", name, out.Child.Exit))
	}
}

// say tells the user something that --quiet does not leave out.
func (l *roleLog) say(level slog.Level, text string) {
	switch {
	case l == nil || l.format != "json" && level >= l.level:
		notice(text)
	case l.format == "json":
		l.logger().Log(context.Background(), level, text)
	}
}

// lines returns where lines go that are meant for the user.
func (l *roleLog) lines() io.Writer {
	if l == nil || l.format != "json" && l.level <= slog.LevelWarn {
		return os.Stderr
	}
	return logLines{l}
}

// logLines is a writer whose lines are warnings.
type logLines struct{ log *roleLog }

func (w logLines) Write(b []byte) (int, error) {
	w.log.say(slog.LevelWarn, strings.TrimSuffix(strings.TrimPrefix(string(b), "lockkeeper: "), "\n"))
	return len(b), nil
}

// silent reports whether notices are left out.
func (l *roleLog) silent() bool { return l != nil && (l.quiet || l.level > slog.LevelWarn) }

// client returns where the library writes its log; nil is nowhere, unless the user asks for more than notices.
func (l *roleLog) client() *slog.Logger {
	if l == nil || l.quiet || l.level > slog.LevelInfo {
		return nil
	}
	return l.logger()
}

func (l *roleLog) check() error {
	if l == nil {
		return nil
	}
	return l.logFormat.check()
}

// addLogTo adds the flags of the log to a command that runs for long.
func (f *accessFlags) addLogTo(cmd *cobra.Command) {
	f.log = &roleLog{}
	f.log.addTo(cmd)
}
