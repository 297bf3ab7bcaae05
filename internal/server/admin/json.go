package admin

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// An object is a JSON object whose fields keep their order. Values are nil, string, bool, int64,
// float64, object or list.
type object []field

type field struct {
	name  string
	value any
}

// A list is a JSON array of such values.
type list []any

// appendJSON appends a value in the layout of the printer that ZooKeeper uses: a field a line, with
// spaces around the colon, and arrays on one line but for the objects in them.
func appendJSON(b []byte, v any, indent int) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v)
	case list:
		b = append(b, "[ "...)
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendJSON(b, e, indent)
		}
		if len(v) > 0 {
			b = append(b, ' ')
		}
		return append(b, ']')
	case object:
		if len(v) == 0 {
			return append(b, "{ }"...)
		}
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = newLine(b, indent+1)
			b = append(appendString(b, f.name), " : "...)
			b = appendJSON(b, f.value, indent+1)
		}
		return append(newLine(b, indent), '}')
	}
	panic("admin: a value that JSON has no word for") // only this package makes values
}

func newLine(b []byte, indent int) []byte {
	b = append(b, '\n')
	for range indent {
		b = append(b, "  "...)
	}
	return b
}

// appendString appends a string, escaped for JSON but not for HTML.
func appendString(b []byte, s string) []byte {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.Encode(s) // which can always be encoded, and ends in a newline
	return append(b, strings.TrimSuffix(out.String(), "\n")...)
}

// appendFloat appends a number with a decimal point, as Java does; JSON has none that is not finite.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return append(b, s...)
}
