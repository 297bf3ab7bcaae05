package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zkcli"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	// completionTimeout bounds how long Tab waits for a server.
	completionTimeout = time.Second
	// listingAge is how old a listing may be that Tab uses again.
	listingAge = 2 * time.Second
	// candidatesMax is how many candidates are shown.
	candidatesMax = 60
)

// A listingCache has the children that were listed last, for the next Tab.
type listingCache struct {
	dir   string
	names []string
	at    time.Time
}

// complete is what Tab does. If there are several ways to go on, or one that cannot be put on the line, it shows them.
func (sh *shell) complete(line string, pos int) (string, int, bool) {
	begin := wordBegin(line[:pos])
	word := line[begin:pos]
	candidates, shown := sh.candidates(line[:begin], word)
	if len(candidates) == 0 {
		return "", 0, false
	}
	common := candidates[0]
	for _, c := range candidates[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	common = strings.ToValidUTF8(common, "") // not half a character
	if len(common) <= len(word) {
		text := strings.Join(shown[:min(len(shown), candidatesMax)], "  ")
		if more := len(shown) - candidatesMax; more > 0 {
			text += fmt.Sprintf("  … and %d more", more)
		}
		fmt.Fprintln(sh.out, text)
		return "", 0, false
	}
	return line[:begin] + common + line[pos:], begin + len(common), true
}

// wordBegin returns where the last word of a line begins.
func wordBegin(line string) int {
	begin := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case ' ', '\t':
			begin = i + 1
		}
	}
	return min(begin, len(line))
}

// candidates returns what the last word of a line can become, and how that is shown.
func (sh *shell) candidates(before, word string) (candidates, shown []string) {
	words := strings.Fields(before)
	add := func(names []string, after string) {
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if strings.HasPrefix(name, word) {
				candidates, shown = append(candidates, name+after), append(shown, name)
			}
		}
	}
	switch {
	case len(words) == 0 || len(words) == 1 && words[0] == "help":
		add(sh.verbNames(), " ")
	case strings.HasPrefix(word, "-"):
		add(sh.flagNames(words), " ")
	case words[0] == "connect" || words[0] == "close":
		var names []string
		for _, c := range sh.conns {
			names = append(names, c.name)
		}
		if words[0] == "connect" {
			named, _ := namedConnections() // connect says what is wrong with the file
			for name := range named {
				names = append(names, name)
			}
		}
		add(names, " ")
	default:
		return sh.paths(word)
	}
	return candidates, shown
}

func (sh *shell) verbNames() []string {
	names := append(zkcli.Verbs(), "rmr")
	for name := range shellVerbs() {
		names = append(names, name)
	}
	for _, cmd := range sh.zRoot().Commands() {
		names = append(names, cmd.Name())
	}
	return names
}

func (sh *shell) flagNames(words []string) []string {
	names := zkcli.Options(words[0])
	cmd, _, err := sh.zRoot().Find(words)
	if err != nil || !cmd.HasParent() {
		return names
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return names
}

// paths returns the paths of znodes that begin with word.
func (sh *shell) paths(word string) (candidates, shown []string) {
	if sh.now == nil {
		return nil, nil
	}
	plain, err := ztree.Words(word)
	if err != nil || len(plain) > 1 {
		return nil, nil
	}
	typed := strings.Join(plain, "")
	dirTyped, prefix := "", typed
	if i := strings.LastIndexByte(typed, '/'); i >= 0 {
		dirTyped, prefix = typed[:i+1], typed[i+1:]
	}
	from := dirTyped
	if from == "" {
		from = "."
	}
	dir, err := resolvePath(sh.dir(), from, true)
	if err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	names, err := sh.listing(ctx, dir)
	if err != nil {
		return nil, nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			shown = append(shown, name)
		}
	}
	slices.Sort(shown)
	whole := true
	for i, name := range shown {
		visible := beforeHidden(name)
		candidates = append(candidates, quoteWord(dirTyped+visible))
		shown[i], whole = ztree.Escape(name), whole && visible == name
	}
	if len(candidates) == 1 && whole {
		st, there, err := sh.now.session.Exists(ctx, zk.Join(dir, names[slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) })]))
		if err == nil && there && st.NumChildren > 0 {
			candidates[0] += "/"
		} else {
			candidates[0] += " "
		}
	}
	return candidates, shown
}

// listing returns the children of a znode, as they were at most listingAge ago.
func (sh *shell) listing(ctx context.Context, dir string) ([]string, error) {
	cache := &sh.now.listings
	if cache.dir == dir && time.Since(cache.at) < listingAge {
		return cache.names, nil
	}
	names, _, err := sh.now.session.Children(ctx, dir)
	if err != nil {
		return nil, err
	}
	*cache = listingCache{dir: dir, names: names, at: time.Now()}
	return names, nil
}

// beforeHidden returns a name up to the first character that does not print. Names are made by strangers: what is put on the line has
// to be what is seen there, and the terminal must not take it for a command.
func beforeHidden(name string) string {
	for i, r := range name {
		if r == utf8.RuneError || !printable.Visible(r) {
			return name[:i]
		}
	}
	return name
}

// quoteWord writes a name so that Words reads it as one word, and line does not take it for what other shells do.
func quoteWord(name string) string {
	var b strings.Builder
	for i, r := range name {
		if strings.ContainsRune(" \t\\\"'<>|", r) || r == '#' && i == 0 {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
