package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
)

// addJSONFlag adds the flag that every command with a table has.
func addJSONFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "print JSON instead of a table")
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(printable.JSON(w))
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// cellMax is how many characters of a cell a table shows: one client's long name must not spread the lines of all others. JSON has
// all of it.
const cellMax = 250

// printTable prints rows in columns, the first row being the headings. The last cell of a row that is shorter runs on
// over the columns that it lacks, as a whole.
func printTable(w io.Writer, rows [][]string) error {
	const runsOn = "\x00" // stands for such a cell, which is to make no column wider
	var out bytes.Buffer
	var over []string
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable.Text(cell)
			if runes := []rune(row[i]); len(runes) > cellMax && (i < len(row)-1 || len(row) == len(rows[0])) {
				row[i] = string(runes[:cellMax-1]) + "…"
			}
		}
		line := strings.Join(row, "\t")
		if lacks := len(rows[0]) - len(row); lacks > 0 { // a column would end where a row has no cell for it
			last := row[len(row)-1]
			line = strings.TrimSuffix(line, last) + runsOn + strings.Repeat("\t", lacks)
			over = append(over, last)
		}
		fmt.Fprintln(t, line)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) { // empty cells have kept the columns in line, and are done with
		if before, _, found := strings.Cut(line, runsOn); found {
			line, over = before+over[0], over[1:]
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// An output is a file, standard output, that knows whether all has been written: the code that shows help does not look.
type output struct {
	file *os.File
	err  error // the first
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.file.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// endWithReader ends the command once its output is a pipe that has no reader any more, as behind | head -1. Writing ends it anyway, but the
// next change to write may be far off. Systems other than Linux may not tell.
func endWithReader(w io.Writer) {
	out, ok := w.(*output)
	if !ok {
		return
	}
	pipe := []unix.PollFd{{Fd: int32(out.file.Fd())}}
	go func() { // until the process ends
		_, err := unix.Poll(pipe, -1)
		for err == unix.EINTR {
			_, err = unix.Poll(pipe, -1)
		}
		if err == nil && pipe[0].Revents&unix.POLLERR != 0 {
			out.file.WriteString("\n")
		}
	}()
}

// outputFailed reports whether it was standard output that refused what was written to it.
func outputFailed(err error) bool {
	var e *fs.PathError
	return errors.As(err, &e) && e.Path == os.Stdout.Name()
}

// notice tells the user something.
func notice(text string) { fmt.Fprintf(os.Stderr, "lockkeeper: %s\n", escaped(text)) }

// escaped returns a text as it can be shown at a terminal. There may be names in it that strangers have made, such as the path of a znode
// in an error.
func escaped(text string) string { return unbroken.ReplaceAllStringFunc(text, ztree.Escape) }

var unbroken = regexp.MustCompile(`[^\n\t]+`)
