package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// newStay makes the command that runs under the lock of a holder. It ends when the holder says so. If it is told to end by a
// signal, because the lock is lost or the holder is to end, it ends the process of --pid first. It does not before the holder has
// said "taken": the process does not know of the lock then.
func newStay() *cobra.Command {
	return &cobra.Command{
		Use:    stayCommand + " SOCKET PID STARTED",
		Short:  "The command under the lock of lockkeeper hold",
		Hidden: true,
		Args:   wantArgs(3, 3),
		RunE: func(_ *cobra.Command, args []string) error {
			terms := make(chan os.Signal, 1)
			signal.Notify(terms, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			var watched proc.Process
			var err error
			if watched.Pid, err = strconv.Atoi(args[1]); err == nil {
				watched.Start, err = strconv.ParseUint(args[2], 10, 64)
			}
			if err != nil {
				return exit.Errorf(exit.Usage, "stay: %w (this command is started by lockkeeper hold)", err)
			}
			nc, err := dialHolder(args[0], lineLimit)
			if err != nil {
				return exit.Errorf(exit.OS, "stay: %w", err)
			}
			defer nc.Close()
			nc.SetDeadline(time.Time{}) // it stays
			fmt.Fprintf(nc, "%s %s\n", doGranted, os.Getenv(link.TokenVariable))
			said := make(chan string)
			go func() {
				defer close(said)
				for lines := bufio.NewScanner(nc); lines.Scan(); {
					said <- lines.Text()
				}
			}()
			taken := false
			for told := false; !told; {
				select {
				case line, ok := <-said:
					if line == saysEnd {
						return nil
					}
					taken = taken || line == saysTaken
					told = !ok // the holder is gone
				case <-terms: // the lock is lost, or the holder is to end
					told = true
				}
			}
			if taken && watched.Pid > 0 {
				endProcess(watched, graceOf(os.Getenv))
			}
			return &exit.Error{Status: exit.SignalBase + int(syscall.SIGTERM), Err: errors.New("stay: told to end")}
		},
	}
}

// graceOf returns how long after TERM a command under a lock gets KILL.
func graceOf(getenv func(string) string) time.Duration {
	d, _ := time.ParseDuration(getenv(link.GraceVariable)) // 0 is the safe side
	return d
}

// endProcess asks a process to end, and kills it when half of the grace is over: the rest is for this process, which gets KILL
// itself.
func endProcess(p proc.Process, grace time.Duration) {
	proc.Signal(p, syscall.SIGTERM)
	for deadline := time.Now().Add(grace / 2); proc.Lives(p); time.Sleep(proc.Pause(0)) {
		if time.Now().After(deadline) {
			proc.Signal(p, syscall.SIGKILL)
		}
	}
}
