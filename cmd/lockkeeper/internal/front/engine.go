package front

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

// An engine is the other process, as the front sees it.
type engine struct {
	pid    int
	orders *os.File
	writer *link.Writer
	notes  chan link.Note // from receive; closed when the engine is dead
	in     *os.File
}

// start starts the engine in a session of its own, so that no signal of the terminal reaches it, and
// tells it which lock we want. It keeps our standard error, for a last word if it crashes, and
// nothing else of ours.
func (e *engine) start(program string, argv []string, cell *link.Cell, between pipes, open link.Open) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirOrders.Close()
	in, theirNotes, err := os.Pipe()
	if err != nil {
		orders.Close()
		return err
	}
	defer theirNotes.Close()
	e.pid, err = syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Dir: "/", // the engine is not to keep a file system busy
		Env: os.Environ(),
		Files: []uintptr{
			null.Fd(), null.Fd(), uintptr(syscall.Stderr),
			link.FDOrders: theirOrders.Fd(), link.FDNotes: theirNotes.Fd(), link.FDCell: cell.File().Fd(),
			link.FDSwept: between.sweptRead.Fd(), link.FDCondemn: between.condemnWrite.Fd(),
		},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		orders.Close()
		in.Close()
		return fmt.Errorf("start %s: %w", program, err)
	}
	e.orders, e.writer, e.in = orders, link.NewWriter(orders), in
	e.notes = make(chan link.Note)
	go e.receive()
	if err := e.writer.Send(link.Order{Do: link.DoOpen, Open: &open}); errors.Is(err, link.ErrTooLong) {
		e.close()
		return exit.Errorf(exit.Usage, "the label and the names of what is wanted are too long: %w", err)
	}
	return nil
}

// receive hands over what the engine says, and closes the channel at the end. It ends when the
// engine does, or with close.
func (e *engine) receive() {
	defer close(e.notes)
	link.Receive(e.in, func(n link.Note) { e.notes <- n }) // nonsense is as good as death
}

// tell sends an order. Orders are few and small, so that this does not block on a frozen engine; that
// the engine is dead shows in notes.
func (e *engine) tell(o link.Order) { e.writer.Send(o) }

// kill ends the engine without its help.
func (e *engine) kill() { syscall.Kill(e.pid, syscall.SIGKILL) }

// close lets go of the engine, which ends by itself when it notices.
func (e *engine) close() {
	if e.in == nil {
		return
	}
	e.orders.Close()
	e.in.Close()
	for range e.notes {
	}
}
