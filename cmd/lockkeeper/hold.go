package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/localserver"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

const holdHelp = `Take LOCK and keep it when this command has ended, for scripts and services that cannot be
started by lockkeeper run. The fencing token is printed. A process in the background, the
holder, keeps the lock until one of these; --pid or --lease has to be given:

  lockkeeper release LOCK
  the process of --pid has ended
  the time of --lease is over, and lockkeeper renew LOCK has not let it begin anew

If the lock is lost, the process of --pid gets TERM, and KILL before another client can get
the lock; KILL at once if the lock was broken. When the time of --lease is over nothing is
ended: what works under the lock has to renew often enough, and to stop when that fails.

run is safer wherever it can be used: it ends all processes of its command, and the lock
cannot be forgotten.

Exit status: 0 the lock is held, otherwise as for run (lockkeeper help exit-codes).`

// holdFlags are the flags of hold.
type holdFlags struct {
	jobFlags
	wait  time.Duration
	pid   int
	lease time.Duration
}

func (f *holdFlags) add(cmd *cobra.Command) {
	f.jobFlags.add(cmd)
	flags := cmd.Flags()
	for name, usage := range map[string]string{
		"grace":   "twice the time from TERM to KILL when the process of --pid has to end",
		"label":   `what lockkeeper locks shows (default "hold", with the process of --pid)`,
		"on-lost": "shell command `CMD` to run when the lock is lost, after the process of --pid has ended",
	} {
		flags.Lookup(name).Usage = usage
	}
	f.log = &roleLog{logFormat: logFormat{format: "text"}}
	flags.BoolVarP(&f.log.quiet, "quiet", "q", false, quietUsage)
	flags.DurationVar(&f.wait, "wait", link.WaitForEver, "give up after this wait; 0 tries once")
	flags.Lookup("wait").DefValue = "for ever"
	flags.IntVar(&f.pid, "pid", 0, "hold the lock until the process with this `number` has ended")
	flags.DurationVar(&f.lease, "lease", 0, "hold the lock for this time, and again from each renew on")
}

// check refuses values that cannot be used. changed reports whether a flag was given.
func (f *holdFlags) check(changed func(string) bool) error {
	switch {
	case !changed("pid") && !changed("lease"):
		return exit.Errorf(exit.Usage, "hold: nothing says when the hold ends (give --pid, --lease or both)")
	case changed("pid") && f.pid <= 1:
		return exit.Errorf(exit.Usage, "--pid %d: not the number of a process that can be waited for", f.pid)
	}
	for _, err := range []error{atLeast(changed, "lease", f.lease, time.Second), atLeast(changed, "wait", f.wait, 0)} {
		if err != nil {
			return err
		}
	}
	return f.jobFlags.check(changed)
}

func newHold() *cobra.Command {
	var f holdFlags
	cmd := &cobra.Command{
		Use:        "hold [flags] LOCK",
		SuggestFor: []string{"acquire", "take"},
		Short:      "Take a lock and keep it while another process runs, or for a time",
		Long:       holdHelp,
		Example: `  lockkeeper hold --pid $$ nightly-backup && ./backup.sh   # until this shell has ended
  lockkeeper hold --lease 5m deploy                        # until release, or 5m after the last renew`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			outlivePipes()
			token, err := hold(f, cmd.Flags(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			if err == nil {
				return nil
			}
			_, released := f.askHolder(args[0], doRelease) // the caller thinks that the lock is not held
			if released != nil {
				return exit.Errorf(exit.OS, "hold %s: the token cannot be printed: %w, and %w", args[0], err, released)
			}
			return exit.Errorf(exit.OS, "hold %s: the token cannot be printed, so the lock was given back: %w", args[0], err)
		},
	}
	f.add(cmd)
	f.completeNames(cmd, locksPath, 1)
	return cmd
}

// hold starts the holder. It returns the fencing token when the holder has the lock.
func hold(f holdFlags, flags *pflag.FlagSet, name string) (token int64, err error) {
	if _, err := lockPath(name); err != nil {
		return 0, err
	}
	if err := f.check(flags.Changed); err != nil {
		return 0, err
	}
	var watched proc.Process
	if f.pid > 0 {
		if watched, err = proc.Find(f.pid); err != nil {
			return 0, exit.Errorf(exit.Usage, "hold: --pid %d: %w", f.pid, err)
		}
		if errors.Is(syscall.Kill(f.pid, 0), syscall.EPERM) {
			return 0, exit.Errorf(exit.Usage, "hold: --pid %d: the process is another user's, and could not be ended if the lock were lost", f.pid)
		}
	}
	if _, err := f.settings(); err != nil {
		return 0, err
	}
	f.noticeLocal("lock")
	signals := make(chan os.Signal, 1) // before there is a holder that has to give up
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) { // HUP is under nohup
			signal.Notify(signals, sig)
		}
	}
	defer signal.Stop(signals)
	h, err := startHolder(holderArgs(flags, watched, name))
	if err != nil {
		return 0, exit.Errorf(exit.OS, "hold %s: %w", name, err)
	}
	defer h.said.Close()
	words := make(chan holderSays)
	go func() { // ends with the connection, which has three words at most
		defer close(words)
		for in := json.NewDecoder(h.said); ; {
			var said holderSays
			if in.Decode(&said) != nil {
				return
			}
			words <- said
		}
	}()
	look := time.NewTicker(pidInterval)
	defer look.Stop()
	taking := false // hold has said that it takes the lock
	giveUp := func(err error) (int64, error) {
		h.said.CloseWrite() // the holder gives the lock up, and ends
		for said := range words {
			if taking && said.Status == 0 {
				return said.Token, nil // it is too late for that
			}
		}
		return 0, err
	}
	for {
		var said holderSays
		var heard bool
		select {
		case said, heard = <-words:
		case sig := <-signals:
			return giveUp(&ranError{Outcome: front.Outcome{Kind: front.Signalled, Status: exit.SignalBase + int(sig.(syscall.Signal))}})
		case <-look.C:
			if f.pid > 0 && !proc.Lives(watched) {
				return giveUp(exit.Errorf(exit.Usage, "hold %s: process %d has ended while the lock was waited for", name, f.pid))
			}
			continue
		}
		switch {
		case !heard:
			return 0, exit.Errorf(exit.Internal, "hold %s: the holder has ended without a word (see %s)", name, h.log)
		case said.Status != 0:
			return 0, &ranError{Outcome: front.Outcome{Kind: front.Failed, Status: said.Status, Text: said.Text}}
		}
		if taking {
			return said.Token, nil
		}
		h.said.Write([]byte{takes}) // after an error the lock is gone already: the holder says why
		taking = true
	}
}

// holderSays is what the holder tells hold, and release.
type holderSays struct {
	Token     int64         `json:"token,omitempty"` // of the hold
	Remaining time.Duration `json:"left,omitempty"`  // of the lease, after a renewal
	Status    int           `json:"status,omitempty"`
	Text      string        `json:"text,omitempty"`
	Servers   string        `json:"servers,omitempty"` // the server list, for another command that asks about the lock
}

// holderArgs returns the arguments of the holder: the flags of hold, and when the process of --pid began.
func holderArgs(flags *pflag.FlagSet, watched proc.Process, name string) []string {
	args := []string{"lockkeeper", holderCommand}
	flags.Visit(func(f *pflag.Flag) { args = append(args, "--"+f.Name+"="+f.Value.String()) })
	return append(args, "--"+startedFlag+"="+strconv.FormatUint(watched.Start, 10), "--", name)
}

// The holder's descriptors, beside the usual ones.
const (
	fdSaid   = 3 // a connection: what it says to hold, as JSON objects, and whether hold takes the lock
	fdWaiter = 4 // standard error of hold, for what is said until the lock is held
)

// startedHolder is a holder that has been started.
type startedHolder struct {
	cmd  *exec.Cmd
	said *net.UnixConn
	log  string
}

// startHolder starts a holder in a session of its own.
func startHolder(args []string) (*startedHolder, error) {
	dir, err := holdsDir()
	if err != nil {
		return nil, err
	}
	h := &startedHolder{log: filepath.Join(dir, holdsLog)}
	log, err := openHoldsLog(h.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	said, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	h.cmd = &exec.Cmd{Path: self(), Args: args, Env: os.Environ(), Stdout: log, Stderr: log}
	h.cmd.ExtraFiles = []*os.File{fdSaid - 3: theirs, fdWaiter - 3: os.Stderr}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = h.cmd.Start()
	if err != nil {
		said.Close()
		return nil, err
	}
	go h.cmd.Wait()
	h.said = said
	return h, nil
}

// socketPair returns the two ends of a connection; theirs is to be inherited.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "holder")
	if ours, err = unixConn(os.NewFile(uintptr(fds[0]), "hold")); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

// unixConn makes a connection of a file, which is closed.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	nc, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return nc.(*net.UnixConn), nil
}

const (
	holdsLog         = "holds.log"
	holdsLogBytesMax = 1 << 20
)

// openHoldsLog opens the log of all holders. One that has grown long begins anew.
func openHoldsLog(path string) (*os.File, error) {
	how := os.O_CREATE | os.O_APPEND | os.O_WRONLY | syscall.O_NOFOLLOW
	info, err := os.Lstat(path)
	if err == nil && info.Size() > holdsLogBytesMax {
		how |= os.O_TRUNC
	}
	return os.OpenFile(path, how, 0o600)
}

// holdsDir returns the directory of the holders' sockets and log. It belongs to the user alone.
func holdsDir() (string, error) {
	places, err := localserver.FindPlaces(os.Getenv)
	if err != nil { // which advises to name servers: a holder has a socket of its own with any
		return "", errors.New("no place for the holder's socket: neither HOME nor XDG_STATE_HOME is set to an absolute path (set one)")
	}
	dir, err := places.Private("holds")
	if err != nil {
		return "", fmt.Errorf("%w (set XDG_STATE_HOME to a directory of your own)", err)
	}
	return dir, nil
}

// A holdPlace is where the holder of a lock of some servers listens.
type holdPlace struct{ dir, servers, path string }

// holdPlace returns where the holder of the lock of that name listens.
func (f *accessFlags) holdPlace(name string) (holdPlace, error) {
	path, err := lockPath(name)
	if err != nil {
		return holdPlace{}, err
	}
	to, err := f.settings()
	if err != nil {
		return holdPlace{}, err
	}
	dir, err := holdsDir()
	if err != nil {
		return holdPlace{}, exit.Errorf(exit.OS, "%w", err)
	}
	return holdPlace{dir, to.Servers, path}, nil
}

func (p holdPlace) socket() string {
	sum := sha256.Sum256([]byte(p.servers + "\n" + p.path))
	return filepath.Join(p.dir, hex.EncodeToString(sum[:8]))
}

// elsewhere names the holds of the lock with other server lists. These may be lists of the same servers: they are compared as they
// are written.
func (p holdPlace) elsewhere() string {
	sockets, _ := filepath.Glob(filepath.Join(p.dir, "*"))
	text := ""
	for _, socket := range sockets {
		if strings.Contains(filepath.Base(socket), ".") { // not one of a lock that is held
			continue
		}
		nc, err := dialHolder(socket, lineLimit)
		if err != nil {
			continue
		}
		said, err := request(nc, doName+" "+p.path)
		if err != nil || said.Servers == "" {
			continue
		}
		text += "; there is one with --servers " + said.Servers
	}
	return text
}

// askTimeout is how long a holder may take to answer; it has 8 seconds to give the lock back.
const askTimeout = 30 * time.Second

// request sends a line to a holder, and returns what it answers. The connection is closed.
func request(nc net.Conn, line string) (said holderSays, err error) {
	defer nc.Close()
	_, err = fmt.Fprintln(nc, line)
	if err == nil {
		err = json.NewDecoder(bufio.NewReader(nc)).Decode(&said)
	}
	return said, err
}

// askHolder asks the holder of a lock to do something.
func (f *accessFlags) askHolder(name, do string) (said holderSays, err error) {
	place, err := f.holdPlace(name)
	if err != nil {
		return said, err
	}
	said, err = place.ask(name, do)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) { // the holder has ended, and has not read that
		said, err = place.ask(name, do)
	}
	return said, err
}

// ask asks the holder that listens there, which has the lock of that name.
func (p holdPlace) ask(name, do string) (said holderSays, err error) {
	socket := p.socket()
	file, _ := os.Lstat(socket)
	nc, err := dialHolder(socket, askTimeout)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		if text, readErr := os.ReadFile(socket + lossSuffix); readErr == nil && json.Unmarshal(text, &said) == nil {
			if do == doRelease {
				os.Remove(socket + lossSuffix)
			}
			return said, exit.Errorf(said.Status, "%s %s: %s", do, name, said.Text)
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			if now, err := os.Lstat(socket); do == doRelease && err == nil && os.SameFile(file, now) {
				os.Remove(socket)
			}
			return said, exit.Errorf(exit.Lost, "%s %s: the hold has ended with its holder, which was killed, or went with the machine", do, name)
		}
		return said, exit.Errorf(exit.NoSuchLock, "%s %s: no lockkeeper hold of this user on this machine has it with --servers %s%s", do, name, p.servers, p.elsewhere())
	case err != nil:
		return said, exit.Errorf(exit.OS, "%s %s: %w", do, name, err)
	}
	said, err = request(nc, do)
	switch {
	case err != nil:
		return said, exit.Errorf(exit.Internal, "%s %s: the holder does not answer (%w): it is not known what became of the lock; see lockkeeper locks %s", do, name, err, name)
	case said.Status != 0:
		return said, exit.Errorf(said.Status, "%s %s: %s", do, name, said.Text)
	}
	return said, nil
}

// newRelease makes the command that ends a hold, and newRenew the one that prolongs it.
func newRelease() *cobra.Command {
	return newAsk(doRelease, "End a hold that lockkeeper hold has begun", `Give the lock back that lockkeeper hold has taken, and return when that is known. The servers
have to be the same as for hold, written in the same way, and the user too.

Exit status: 0 given back, 66 there is no such hold, 69 no server has said that the
lock is free: it is when the session has expired, 70 the holder does not answer, 74 the
hold had ended before: the lock was lost, the lease was over, or the holder was ended
(told once).`, func(io.Writer, holderSays) error { return nil })
}

func newRenew() *cobra.Command {
	return newAsk(doRenew, "Prolong a hold that has a lease", `Let the time of lockkeeper hold --lease begin anew.

Exit status: 0 renewed, 64 the hold has no lease, 66 there is no such hold, 70 the holder
does not answer, 74 the hold has ended: the lock was lost, the lease was over, or the
holder was ended.`, func(out io.Writer, said holderSays) error {
		_, err := fmt.Fprintln(out, said.Remaining)
		return err
	})
}

func newAsk(do, short, long string, show func(io.Writer, holderSays) error) *cobra.Command {
	var flags accessFlags
	cmd := &cobra.Command{
		Use:     do + " LOCK",
		Short:   short,
		Long:    long,
		Example: "  lockkeeper " + do + " nightly-backup",
		Args:    wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			said, err := flags.askHolder(args[0], do)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), said)
		},
	}
	flags.addTo(cmd, makingFlags)
	flags.completeNames(cmd, locksPath, 1)
	return cmd
}
