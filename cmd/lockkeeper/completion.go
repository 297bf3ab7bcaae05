package main

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

// completeNames completes the names of locks or elections: those below home, and after a slash, or if home is the root, the paths of znodes. It
// asks the servers that the flags name, for completionTimeout at most, and starts no local keeper. argsMax is how many names
// the command takes.
func (f *accessFlags) completeNames(cmd *cobra.Command, home string, argsMax int) {
	f.completeNamesAfter(cmd, 0, home, argsMax)
}

// completeNamesAfter is completeNames for a command with so many other arguments before the names.
func (f *accessFlags) completeNamesAfter(cmd *cobra.Command, others int, home string, argsMax int) {
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		behind := slices.Contains(os.Args[:len(os.Args)-1], "--") // cobra adds one of its own, so cmd.ArgsLenAtDash does not tell
		if len(args) < others || len(args) >= others+argsMax || behind {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		names, more := f.namesLike(ctx, home, typed)
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args[others:], name) })
		if more {
			return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// namesLike returns names below home that begin with what was typed, or znodes if it begins with a slash. more reports that
// paths may go on. A server that does not answer has no names.
func (f *accessFlags) namesLike(ctx context.Context, home, typed string) (names []string, more bool) {
	to, err := f.settings()
	if err != nil {
		return nil, false
	}
	if to.Servers == access.Local {
		to.Servers, err = f.statusList(to.Servers)
		if err != nil {
			return nil, false
		}
	}
	s, _, err := openSession(ctx, to, client.Options{}, completionTimeout, func(string) {})
	if err != nil {
		return nil, false
	}
	defer closeIdle(ctx, s)
	if home == "/" && typed == "" {
		typed = "/"
	}
	dir, prefix := home, ""
	if strings.HasPrefix(typed, "/") {
		dir = typed[:strings.LastIndex(typed, "/")+1]
		prefix, more = dir, true
		dir = strings.TrimSuffix(dir, "/")
		if dir == "" {
			dir = "/"
		}
	}
	if zk.ValidatePath(dir) != nil {
		return nil, false
	}
	children, _, err := s.Children(ctx, dir)
	if err != nil {
		return nil, false
	}
	for _, name := range children {
		name = prefix + name
		if strings.HasPrefix(name, typed) && plainWord(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, more
}

// plainWord reports whether a name is one word and nothing else to a shell. Names are made by strangers; bash puts what several
// candidates have in common on the line without quotes, and evaluates the line at the next Tab.
func plainWord(name string) bool {
	return name != "" && name == ztree.Escape(name) && !strings.ContainsAny(name, " $`\\\"'&|;<>()[]{}*?!") && !strings.ContainsAny(name[:1], "-~#")
}

// completeValues completes the value of a flag.
func completeValues(cmd *cobra.Command, flag string, values ...string) {
	if cmd.Flags().Lookup(flag) == nil {
		return
	}
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // it was registered twice
	}
}
