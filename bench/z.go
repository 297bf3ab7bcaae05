package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What the znode commands are measured with.
const (
	zGets      = 200
	zTree      = 100_000
	zExported  = 1_000_000
	zDirectory = 1000 // znodes below each directory of a tree
	zDataBytes = 100
	zTabs      = 5
	// listingOld is after how long the shell lists a directory again.
	listingOld = 3 * time.Second
)

// znodeCommands prints how long the znode commands take from start to exit, on our server on the same machine, and how much memory
// the large ones take.
func znodeCommands(dir string) error {
	s, err := startOurs(dir)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Printf("%s, %d CPUs, %s\n\n", processor(), runtime.NumCPU(), runtime.Version())
	ctx := context.Background()
	session, err := client.Open(ctx, s.addr, client.Options{})
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	m := &zMeasurement{binary: s.command[0], addr: s.addr, file: filepath.Join(dir, "export")}
	if err := errors.Join(plant(ctx, session, "/tree", zTree), plantWide(ctx, session, "/wide", zTree)); err != nil {
		return err
	}
	return errors.Join(m.get(), m.tree(), m.tab(), m.copies(), plant(ctx, session, "/big", zExported), m.export(), m.importAgain())
}

// plant makes a tree with n znodes, in directories.
func plant(ctx context.Context, s *client.Session, root string, n int) error {
	if err := s.EnsurePath(ctx, root, nil); err != nil {
		return err
	}
	for i := 0; i < n; i += zDirectory {
		dir := fmt.Sprintf("%s/d%06d", root, i/zDirectory)
		if _, err := s.Create(ctx, dir, nil, zk.Persistent, nil); err != nil {
			return err
		}
		if err := plantInto(ctx, s, dir, 0, zDirectory-1); err != nil { // the directory is one of them
			return err
		}
	}
	return nil
}

// plantWide makes one directory with n znodes.
func plantWide(ctx context.Context, s *client.Session, dir string, n int) error {
	if err := s.EnsurePath(ctx, dir, nil); err != nil {
		return err
	}
	for i := 0; i < n; i += zDirectory {
		if err := plantInto(ctx, s, dir, i, zDirectory); err != nil {
			return err
		}
	}
	return nil
}

func plantInto(ctx context.Context, s *client.Session, dir string, first, n int) error {
	data := bytes.Repeat([]byte("x"), zDataBytes)
	var ops []client.Op
	for i := first; i < first+n; i++ {
		ops = append(ops, client.OpCreate(fmt.Sprintf("%s/n%06d", dir, i), data, zk.Persistent, nil))
	}
	_, err := s.Multi(ctx, ops...)
	return err
}

// A zMeasurement runs the command.
type zMeasurement struct {
	binary, addr, file string
}

// A cost is what one run took.
type cost struct {
	time time.Duration
	peak int64 // bytes of resident memory
	out  int   // bytes of standard output
}

// run runs the command from start to exit. Its memory is looked at while it runs: what the kernel adds up for a child begins with the
// memory of its parent.
func (m *zMeasurement) run(watch bool, args ...string) (c cost, err error) {
	cmd := exec.Command(m.binary, append([]string{"z", args[0], "--servers", m.addr}, args[1:]...)...)
	var out counter
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return c, err
	}
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for watch {
			c.peak = max(c.peak, peakOf(cmd.Process.Pid))
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	err = cmd.Wait()
	c.time = time.Since(begin)
	close(ended)
	<-watched
	c.out = int(out)
	if err != nil {
		return c, fmt.Errorf("z %s: %w\n%s", strings.Join(args, " "), err, &said)
	}
	return c, nil
}

// A counter counts what is written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// peakOf returns the most memory that a process has had resident so far; 0 if it is gone.
func peakOf(pid int) int64 {
	text := field(fmt.Sprintf("/proc/%d/status", pid), "VmHWM", "0")
	kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
	return kib << 10
}

func (m *zMeasurement) get() error {
	var times []time.Duration
	for range zGets {
		c, err := m.run(false, "get", "/tree/d000001/n000005")
		if err != nil {
			return err
		}
		if c.out != zDataBytes {
			return fmt.Errorf("z get has printed %d bytes", c.out)
		}
		times = append(times, c.time)
	}
	slices.Sort(times)
	fmt.Printf("z get, start to exit: median %.1f ms, 95 %% within %.1f ms (aim: 15 ms)\n", ms(times[zGets/2]), ms(times[zGets*95/100]))
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (m *zMeasurement) tree() error {
	return m.best("tree", "of 100,000 znodes", "aim: 1 s", 3, "tree", "/tree")
}

func (m *zMeasurement) export() error {
	return m.best("export", "of a million znodes", "aim: 15 s, 100 MB", 1, "export", "/big", "-o", m.file)
}

func (m *zMeasurement) importAgain() error {
	info, err := os.Stat(m.file)
	if err != nil {
		return err
	}
	fmt.Printf("the export has %d MB\n", info.Size()>>20)
	return m.best("import", "of it", "aim: bounded memory", 1, "import", m.file, "/copy")
}

// best prints the median of some runs.
func (m *zMeasurement) best(verb, of, aim string, rounds int, args ...string) error {
	var all []cost
	for range rounds {
		c, err := m.run(true, args...)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cost) int { return int(a.time - b.time) })
	c := all[len(all)/2]
	fmt.Printf("z %s %s: %.2f s, %d MB resident at most (%s)\n", verb, of, c.time.Seconds(), c.peak>>20, aim)
	return nil
}

// tab presses Tab in the shell behind the beginning of a name, below a znode with very many children.
func (m *zMeasurement) tab() error {
	master, slave, err := terminal()
	if err != nil {
		return err
	}
	defer master.Close()
	home, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	cmd := exec.Command(m.binary, "shell", "--servers", m.addr)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	err = cmd.Start()
	slave.Close()
	if err != nil {
		return err
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	screen := screenOf(master)
	if err := screen.await("> "); err != nil {
		return err
	}
	var times []time.Duration
	for i := range zTabs {
		if i > 0 {
			time.Sleep(listingOld)
		}
		typed := fmt.Sprintf("get /wide/n09%d99", i)
		master.WriteString(typed)
		if err := screen.await(typed); err != nil {
			return err
		}
		begin := time.Now()
		master.WriteString("\t")
		if err := screen.await(fmt.Sprintf("n09%d999", i)); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
		master.WriteString("\x15") // deletes the line
	}
	slices.Sort(times)
	fmt.Printf("Tab in the shell among 100,000 children, listed anew: median %.1f ms, at most %.1f ms (aim: 50 ms)\n", ms(times[zTabs/2]), ms(times[zTabs-1]))
	return nil
}

// terminal makes a pseudo-terminal.
func terminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var locked, number int32
	for _, c := range []struct {
		request uintptr
		value   *int32
	}{{syscall.TIOCSPTLCK, &locked}, {syscall.TIOCGPTN, &number}} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), c.request, uintptr(unsafe.Pointer(c.value))); errno != 0 {
			master.Close()
			return nil, nil, errno
		}
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		master.Close()
	}
	return master, slave, err
}

// A screen is what a terminal shows.
type screen struct {
	more  chan []byte // closed at the end
	shown []byte
}

func screenOf(master *os.File) *screen {
	s := &screen{more: make(chan []byte, 64)}
	go func() { // until the terminal is closed
		defer close(s.more)
		for {
			b := make([]byte, 4096)
			n, err := master.Read(b)
			if err != nil {
				return
			}
			s.more <- b[:n]
		}
	}()
	return s
}

// await waits until text has been shown since the last call.
func (s *screen) await(text string) error {
	end := time.After(10 * time.Second)
	for {
		if i := bytes.Index(s.shown, []byte(text)); i >= 0 {
			s.shown = s.shown[i+len(text):]
			return nil
		}
		select {
		case b, ok := <-s.more:
			if !ok {
				return fmt.Errorf("the terminal has ended without %q: %q", text, s.shown)
			}
			s.shown = append(s.shown, b...)
		case <-end:
			return fmt.Errorf("no %q in 10 s: %q", text, s.shown)
		}
	}
}
