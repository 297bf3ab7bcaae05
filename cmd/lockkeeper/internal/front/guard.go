package front

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

// beginLimit is how long the guard may take to start the child.
const beginLimit = 10 * time.Second

const guardDied = "the process that guards the command has died"

// A guard is the process between us and the child, as the front sees it.
type guard struct {
	pid    int // 0 once it has been waited for
	task   *os.File
	events chan link.Event // from receive; closed when the guard is dead
	in     *os.File
}

// pipes are those between engine and guard. The front only makes them.
type pipes struct{ sweptRead, sweptWrite, condemnRead, condemnWrite *os.File }

func newPipes() (p pipes, err error) {
	if p.sweptRead, p.sweptWrite, err = os.Pipe(); err != nil {
		return p, err
	}
	if p.condemnRead, p.condemnWrite, err = os.Pipe(); err != nil {
		p.close()
	}
	return p, err
}

func (p pipes) close() {
	for _, f := range []*os.File{p.sweptRead, p.sweptWrite, p.condemnRead, p.condemnWrite} {
		f.Close() // those that were not made say so, and that is all
	}
}

// start starts the guard, with everything of ours that is to be the child's: streams and whatever else
// is open, directory, terminal, and the signals that are ignored. Its group is its own, so that no key
// stops it.
func (g *guard) start(program string, cell *link.Cell, between pipes) error {
	theirTask, task, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirTask.Close()
	in, theirEvents, err := os.Pipe()
	if err != nil {
		task.Close()
		return err
	}
	defer theirEvents.Close()
	// Its descriptors keep our numbers, which nothing that we have inherited can have. Nothing else is
	// started while they can be inherited.
	fds := link.GuardFDs{
		Task: int(theirTask.Fd()), Events: int(theirEvents.Fd()), Cell: int(cell.File().Fd()),
		Condemn: int(between.condemnRead.Fd()), Swept: int(between.sweptWrite.Fd()),
	}
	for _, fd := range fds.All() {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			break
		}
	}
	if err == nil {
		g.pid, err = syscall.ForkExec(program, fds.Args(), &syscall.ProcAttr{
			Env:   append(os.Environ(), "GOMAXPROCS=1"), // it is to cost little; the child has an environment of its own
			Files: []uintptr{uintptr(syscall.Stdin), uintptr(syscall.Stdout), uintptr(syscall.Stderr)},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
	}
	syscall.CloseOnExec(fds.Cell)
	if err != nil {
		task.Close()
		in.Close()
		return fmt.Errorf("start %s: %w", program, err)
	}
	g.task, g.in = task, in
	g.events = make(chan link.Event)
	go g.receive()
	return nil
}

// receive hands over what the guard says, and closes the channel at the end. It ends when the guard
// does.
func (g *guard) receive() {
	defer close(g.events)
	link.Receive(g.in, func(e link.Event) { g.events <- e }) // nonsense is as good as death
}

// begin has the guard start the child, and returns what has become of that; nothing if the guard does
// not say. reap is called when a child of ours has changed: the guard may have been stopped before it could say anything.
func (g *guard) begin(t link.Task, changed <-chan os.Signal, reap func()) link.Event {
	g.task.SetWriteDeadline(time.Now().Add(beginLimit))
	if err := link.SendTask(g.task, t); err != nil {
		return link.Event{}
	}
	patience := time.NewTimer(beginLimit)
	defer patience.Stop()
	for {
		select {
		case e := <-g.events: // nothing, if it has died
			return e
		case <-changed:
			reap()
		case <-patience.C:
			return link.Event{}
		}
	}
}

// kill ends the guard; in an instant, unless it hangs in the kernel.
func (g *guard) kill() {
	if g.pid != 0 {
		syscall.Kill(g.pid, syscall.SIGKILL)
	}
}

// close waits until the guard, which has been killed, is gone, so that nothing of ours is left when we
// end.
func (g *guard) close() {
	if g.in == nil {
		return
	}
	g.kill()
	for range g.events {
	}
	if g.pid != 0 {
		syscall.Wait4(g.pid, nil, 0, nil)
	}
	g.task.Close()
	g.in.Close()
}
