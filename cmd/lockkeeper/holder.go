package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// The holder is the process behind lockkeeper hold. It is a run whose command is lockkeeper stay, which does nothing but end the
// process of --pid when the lock is lost. So a hold has what a run has: a guard that ends the command in time, and the lock that is
// given back when the command has ended. What is said to the holder comes over a socket, a line for each connection:
// "granted TOKEN" from stay, which is answered with "taken", and with "end" when the hold is over; "release" and "renew" from the
// commands, which are answered with a holderSays, as is "name PATH".
//
// The holder tells hold the token, and hold answers that it takes the lock, or gives up and closes its side. What hold says is
// what counts: until it takes the lock the process of --pid does not know that it has one, and is left alone. When engine and
// guard know that the lock is taken, and would end the process with the hold, the holder tells the token again, and hold returns.

const (
	holderCommand = "holder"
	stayCommand   = "stay"
	startedFlag   = "started"
	doGranted     = "granted"
	doRelease     = "release"
	doRenew       = "renew"
	doName        = "name" // with a path: the servers, if the hold is of that lock
	saysTaken     = "taken"
	saysEnd       = "end"
	takes         = 't'             // what hold writes to take the lock
	lineLimit     = 5 * time.Second // for a line from the other side of a connection
	pidInterval   = 100 * time.Millisecond
)

func newHolder() *cobra.Command {
	var f holdFlags
	var started uint64
	cmd := &cobra.Command{
		Use:    holderCommand + " LOCK",
		Short:  "The process behind lockkeeper hold that has the lock",
		Hidden: true,
		Args:   wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h := &holder{lease: f.lease, watched: proc.Process{Pid: f.pid, Start: started}, name: args[0],
				decided: make(chan struct{}), ended: make(chan struct{})}
			h.aware = &front.Awareness{Decided: h.isTaken}
			h.waiter = inherited(fdWaiter, "waiter")
			var err error
			if h.said, err = unixConn(inherited(fdSaid, "said")); err != nil {
				return exit.Errorf(exit.Usage, "holder: %w (this command is started by lockkeeper hold)", err)
			}
			go h.watchHold()
			said, out := h.run(&f, cmd.Flags().Changed)
			h.tell(said)
			f.tellLost(out) // takes up to a minute: release and renew have their answers
			h.answers.Wait()
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().Uint64Var(&started, startedFlag, 0, "when the process of --pid was started")
	return cmd
}

func inherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

// holder holds one lock.
type holder struct {
	name    string
	lease   time.Duration // 0 without
	watched proc.Process  // with the Pid 0 without
	place   holdPlace
	socket  string      // where it listens once it has the lock
	own     os.FileInfo // of the socket's file; no other has its inode while the holder listens

	waiter  *os.File      // standard error of hold, until the lock is held
	said    *net.UnixConn // to hold, until it has taken the lock
	decided chan struct{} // closed when hold has taken the lock, or has given up
	aware   *front.Awareness
	answers sync.WaitGroup

	mu      sync.Mutex
	taken   bool        // hold has taken the lock
	gaveUp  bool        // hold has given up
	stay    net.Conn    // once the lock is held
	token   int64       // likewise
	expires *time.Timer // with a lease, once the lock is held
	over    bool        // the hold is to end
	ending  bool        // it is to end because that was asked for, or its time is over
	lost    string      // how it has ended without a release; empty if it has not
	out     holderSays  // valid when ended is closed
	ended   chan struct{}
}

// Write says something to the user: on the terminal of hold as long as that waits, then in the log.
func (h *holder) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stay == nil {
		return h.waiter.Write(b)
	}
	return os.Stderr.Write(b)
}

// log writes a line into the log.
func (h *holder) log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s hold %s: %s\n", time.Now().Format(time.RFC3339), h.name, fmt.Sprintf(format, args...))
}

// run holds the lock and returns what became of it, for hold and for what runs under the lock.
func (h *holder) run(f *holdFlags, changed func(string) bool) (holderSays, front.Outcome) {
	failed := func(err error) (holderSays, front.Outcome) {
		return holderSays{Status: exit.StatusOf(err, exit.OS), Text: err.Error()}, front.Outcome{}
	}
	path, err := lockPath(h.name)
	if err != nil {
		return failed(err)
	}
	to, err := f.settings()
	if err != nil {
		return failed(err)
	}
	dir, err := holdsDir()
	if err != nil {
		return failed(err)
	}
	h.place = holdPlace{dir, to.Servers, path}
	h.socket = h.place.socket()
	own := filepath.Join(dir, fmt.Sprintf("%d.%x", os.Getpid(), time.Now().UnixNano()))
	l, err := listenHolder(own)
	if err != nil {
		return failed(err)
	}
	defer os.Remove(own)
	if h.own, err = os.Lstat(own); err != nil {
		return failed(err)
	}
	if f.label == "" {
		f.label = "hold"
		if f.pid > 0 {
			f.label = fmt.Sprintf("hold for process %d", f.pid)
		}
	}
	cfg, err := f.config(changed, "", h.name, path, []string{self()})
	if err != nil {
		return failed(err)
	}
	if err := h.detach(f); err != nil {
		return failed(err)
	}
	cfg.Argv = []string{"lockkeeper", stayCommand, own, strconv.Itoa(h.watched.Pid), strconv.FormatUint(h.watched.Start, 10)}
	cfg.Work = "the hold"
	if f.pid > 0 {
		cfg.Work = fmt.Sprintf("process %d", f.pid)
	}
	cfg.Open.Wait, cfg.Open.Watched, cfg.Awareness, cfg.Stderr = f.wait, h.watched, h.aware, h
	go h.serve(l, own)
	out := front.Run(cfg)
	h.stop()
	said := holderSays{Token: out.Token, Status: out.Status, Text: out.Text}
	if out.Status == exit.OK && out.Unsure != "" {
		said.Status, said.Text = exit.Unreachable, out.Unsure
	}
	h.mu.Lock()
	if out.Kind == front.Lost || h.taken && !h.ending {
		h.keepLoss(cmp.Or(out.Text, "the holder was ended by a signal, and the lock was given back"))
	}
	if h.taken && h.lost != "" {
		said.Status, said.Text = exit.Lost, h.lost
	}
	h.mu.Unlock()
	if out.Text != "" {
		h.log("%s", out.Text)
	}
	h.removeSocket()
	l.Close()
	return said, out
}

// detach lets go of what the caller of hold has open, and of its directory: a hold keeps no file locked and no file system busy.
func (h *holder) detach(f *holdFlags) error {
	f.onLostDir, _ = os.Getwd() // none if it is gone
	return errors.Join(os.Chdir("/"), proc.CloseInherited())
}

// watchHold waits for what hold decides. If it gives up, or is killed, this process gives up, too.
func (h *holder) watchHold() {
	n, _ := h.said.Read(make([]byte, 1))
	h.mu.Lock()
	h.taken, h.gaveUp = n > 0, n == 0
	close(h.decided)
	stay, over := h.stay, h.over
	if h.taken {
		h.aware.Begin() // first: hold returns with the next word
		json.NewEncoder(h.said).Encode(holderSays{Token: h.token})
		h.said.Close()
		io.WriteString(stay, saysTaken+"\n") // an error means that it has ended
	}
	h.mu.Unlock()
	switch {
	case h.taken || over:
	case stay != nil:
		h.end(goneHold)
	default:
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}
}

// goneHold says why a hold ends that its caller does not know of.
const goneHold = "lockkeeper hold has given up, or was killed"

// isTaken reports, once the lock is not held any more, whether hold has taken it. From then on hold cannot take it.
func (h *holder) isTaken() bool {
	h.stop()
	h.said.CloseRead() // what hold has written can still be read
	<-h.decided
	return h.taken
}

// serve answers connections until the listener is closed.
func (h *holder) serve(l net.Listener, own string) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		h.answers.Go(func() { h.answer(nc, own) })
	}
}

// answer answers one connection.
func (h *holder) answer(nc net.Conn, own string) {
	nc.SetReadDeadline(time.Now().Add(lineLimit))
	line, err := bufio.NewReader(nc).ReadString('\n')
	if err != nil {
		nc.Close()
		return
	}
	do, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	if do == doGranted {
		h.granted(nc, own, arg) // the connection stays
		return
	}
	defer nc.Close()
	said := holderSays{Status: exit.Usage, Text: fmt.Sprintf("%q is no request", do)}
	switch do {
	case doRelease:
		h.end("released")
		<-h.ended
		said = h.out
	case doRenew:
		said = h.renew()
		if said.Status == exit.NoSuchLock { // the lock may be free, and what became of the hold not known yet
			<-h.ended
			if h.out.Status == exit.Lost {
				said = h.out
			}
		}
	case doName:
		said = holderSays{}
		if arg == h.place.path {
			said.Servers = h.place.servers
		}
	}
	nc.SetWriteDeadline(time.Now().Add(lineLimit))
	json.NewEncoder(nc).Encode(said) // an error means that the question is not open any more
}

// granted notes that the lock is held, and tells hold.
func (h *holder) granted(stay net.Conn, own, text string) {
	token, err := strconv.ParseInt(text, 10, 64)
	h.mu.Lock()
	if h.over || h.gaveUp {
		h.mu.Unlock()
		stay.Close()
		return
	}
	h.stay, h.token = stay, token
	if h.lease > 0 {
		h.expires = time.AfterFunc(h.lease, h.expire)
	}
	if err == nil {
		err = os.Rename(own, h.socket) // in place of that of an earlier holder
		os.Remove(h.socket + lossSuffix)
	}
	h.mu.Unlock()
	if err == nil {
		err = json.NewEncoder(h.said).Encode(holderSays{Token: token})
	}
	h.waiter.Close()
	switch {
	case err != nil:
		h.end(fmt.Sprintf("lockkeeper hold does not hear of it: %v", err))
	case h.watched.Pid > 0:
		h.answers.Go(h.watch)
	}
}

// watch ends the hold when the process of --pid has ended.
func (h *holder) watch() {
	look := time.NewTicker(pidInterval)
	defer look.Stop()
	for {
		if !proc.Lives(h.watched) {
			h.end(fmt.Sprintf("process %d has ended", h.watched.Pid))
			return
		}
		select {
		case <-look.C:
		case <-h.ended:
			return
		}
	}
}

// renew lets the lease begin anew.
func (h *holder) renew() holderSays {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.lease == 0:
		return holderSays{Status: exit.Usage, Text: "the hold has no lease: it was begun without --lease"}
	case h.over || h.expires == nil || !h.expires.Stop():
		return holderSays{Status: exit.NoSuchLock, Text: "the hold is over"}
	}
	h.expires.Reset(h.lease)
	return holderSays{Remaining: h.lease}
}

// expire ends the hold because its lease is over, and leaves what release and renew are to say.
func (h *holder) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over && h.taken {
		h.keepLoss(fmt.Sprintf("the lease of %v was over, and the lock was given back", h.lease))
	}
	h.endLocked("the lease was not renewed")
}

// end ends the hold: stay ends, and then the lock is given back.
func (h *holder) end(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endLocked(why)
}

func (h *holder) endLocked(why string) {
	if h.over || h.stay == nil {
		return
	}
	h.ending = true
	h.finish()
	h.removeSocket()
	h.log("%s", why)
	io.WriteString(h.stay, saysEnd+"\n")
	h.stay.Close()
}

// stop notes that the lock is not held any more: neither the lease nor the process of --pid has a hold to end.
func (h *holder) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finish()
}

// finish is stop for a caller that has mu.
func (h *holder) finish() {
	h.over = true
	if h.expires != nil {
		h.expires.Stop()
	}
}

// removeSocket removes the socket, but not that of the next holder, which may have the lock once it was lost.
func (h *holder) removeSocket() {
	if h.ownsSocket() {
		os.Remove(h.socket)
	}
}

func (h *holder) ownsSocket() bool {
	now, err := os.Lstat(h.socket)
	return err == nil && os.SameFile(now, h.own)
}

// lossSuffix ends the name of the file beside the socket that tells how a hold has ended that was not released, until release has
// told it or the lock is held again.
const lossSuffix = ".lost"

// keepLoss leaves what release is to say after this process has ended. Without that a lock that was lost would look to
// release like one that was never held.
func (h *holder) keepLoss(why string) {
	h.lost = why
	text, err := json.Marshal(holderSays{Status: exit.Lost, Text: why})
	if err == nil && h.ownsSocket() {
		err = os.WriteFile(h.socket+lossSuffix, text, 0o600)
	}
	if err != nil {
		h.log("release will not tell how the hold has ended: %v", err)
	}
}

// tell says what became of the hold: to hold if that still waits, and to the commands that have asked.
func (h *holder) tell(out holderSays) {
	taken := h.isTaken()
	h.out = out
	close(h.ended)
	if !taken {
		if out.Status == 0 {
			out = holderSays{Status: exit.Internal, Text: "the lock was given back at once"}
		}
		json.NewEncoder(h.said).Encode(out)
		h.said.Close()
	}
}
