package script

import (
	"fmt"
	"strconv"
	"strings"
)

// A Case is a script from its first connection to its last answer.
type Case struct {
	Name  string
	Steps []Step
}

// A Step is one line of a case.
type Step struct {
	Line    int    // number in the file, from 1
	Text    string // as written
	Conn    string // name of the connection
	Calls   []Call // sent in one write
	Differs string // name of the difference that is to be seen; empty for none
}

// A Call is a request, or something else that a connection is told to do.
type Call struct {
	Verb string
	Args []string
	Mods map[string]string // what stood in front of the verb
}

// Parse reads the cases of a file. Its errors name the line.
func Parse(text string) ([]Case, error) {
	var cases []Case
	for i, line := range strings.Split(text, "\n") {
		if name, ok := strings.CutPrefix(line, "== "); ok {
			cases = append(cases, Case{Name: strings.TrimSpace(name)})
			continue
		}
		step, err := ParseStep(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %q: %w", i+1, line, err)
		case step.Conn == "":
			continue
		case len(cases) == 0:
			return nil, fmt.Errorf("line %d: before the first case", i+1)
		}
		step.Line = i + 1
		c := &cases[len(cases)-1]
		c.Steps = append(c.Steps, step)
	}
	return cases, nil
}

// ParseStep reads one line; that of an empty one has no connection.
func ParseStep(line string) (Step, error) {
	words, err := split(line)
	if err != nil || len(words) == 0 {
		return Step{}, err
	}
	step := Step{Text: strings.TrimSpace(line), Conn: words[0].text}
	var call Call
	end := func() error {
		if call.Verb == "" {
			return fmt.Errorf("nothing to do")
		}
		step.Calls = append(step.Calls, call)
		call = Call{}
		return nil
	}
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case w.plain("|"):
			if err := end(); err != nil {
				return step, err
			}
		case w.plain("~"):
			if i+2 != len(words) {
				return step, fmt.Errorf("one name must follow ~")
			}
			step.Differs = words[i+1].text
			return step, end()
		case call.Verb == "" && (strings.Contains(w.text, "=") || w.text == "unordered"):
			key, value, _ := strings.Cut(w.text, "=")
			if call.Mods == nil {
				call.Mods = map[string]string{}
			}
			call.Mods[key] = value
		case call.Verb == "":
			call.Verb = w.text
		case w.quoted && w.text == null: // the four letters
			return step, fmt.Errorf("a string %q cannot be told from null", null)
		default:
			call.Args = append(call.Args, w.text)
		}
	}
	return step, end()
}

// A word is what stands between spaces.
type word struct {
	text   string
	quoted bool
}

func (w word) plain(s string) bool { return !w.quoted && w.text == s }

// split cuts a line into words, up to a comment.
func split(line string) ([]word, error) {
	var words []word
	for {
		line = strings.TrimLeft(line, " \t")
		switch {
		case line == "" || line[0] == '#':
			return words, nil
		case line[0] == '"':
			q, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, err
			}
			s, err := strconv.Unquote(q)
			if err != nil {
				return nil, err
			}
			words = append(words, word{s, true})
			line = line[len(q):]
		default:
			end := strings.IndexAny(line, " \t")
			if end < 0 {
				end = len(line)
			}
			words = append(words, word{line[:end], false})
			line = line[end:]
		}
	}
}
