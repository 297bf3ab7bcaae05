// The command lockkeeper runs programs under distributed locks, shows and breaks such locks, and is a
// ZooKeeper server. Its contract with scripts, the exit statuses above all, is in package exit and in
// the help of each command.
//
// Each subcommand is a file; this is where the parts are wired together. What a command says to people
// goes to standard error as "lockkeeper: …", what it was asked for goes to standard output.
package main

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

func init() {
	// The front ties its child's life to the thread that starts it. The main goroutine keeps the main
	// thread, which lives as long as the process.
	runtime.LockOSThread()
}

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs a command line and returns the exit status.
func execute(args []string) int {
	root, out := newRoot(), &output{file: os.Stdout}
	root.SetArgs(args)
	root.SetOut(out)
	err := root.Execute()
	if err == nil {
		err = out.err
	}
	if err == nil {
		return exit.OK
	}
	var ran *ranError
	if asRan(err, &ran) {
		return ran.end()
	}
	if !errors.As(err, new(interrupt)) {
		notice(err.Error())
	}
	if outputFailed(err) {
		return exit.OS
	}
	status := exit.StatusOf(err, exit.Usage) // without a status it is cobra's word on the command line
	if status == exit.SignalBase+int(syscall.SIGINT) {
		interruptSelf()
	}
	return status
}

// interruptSelf ends the process by SIGINT. A shell that runs a script or a loop goes on after a status of 130, and
// stops after a command that was ended by the signal. The first process of a container cannot be ended so, nor can one that was
// started with INT ignored, as the jobs in the background of a script are.
func interruptSelf() {
	if interruptIgnored || os.Getpid() == 1 {
		return
	}
	signal.Reset(syscall.SIGINT)
	syscall.Kill(os.Getpid(), syscall.SIGINT)
	select {} // the signal is on its way
}

var interruptIgnored = signal.Ignored(syscall.SIGINT) // before anything listens to it

// interruptJob ends the process and whatever else is in its job, as ^C does. A script around us would go
// on if we just returned a status. A command that ignores the key cannot be ended so, nor can the first process of a container.
func interruptJob() {
	if signal.Ignored(syscall.SIGINT) || os.Getpid() == 1 {
		return
	}
	signal.Reset(syscall.SIGINT)
	syscall.Kill(0, syscall.SIGINT)
	select {} // it is on its way
}
