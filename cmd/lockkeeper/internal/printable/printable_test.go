package printable

import (
	"encoding/json"
	"strings"
	"testing"
)

// A name or label of another user neither moves the cursor nor turns the direction of the line.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"nightly-bäckup 夜":     "nightly-bäckup 夜",
		"a\x1b[31mb\r\nc\x7f":  "a?[31mb??c?",
		"rtl\u202eabc\u2066d":  "rtl?abc?d",
		"\u0085next\u200f":     "?next?",
		"db\ufe0f\u3164\u2800": "db???",
		"deploy\u200b\u2028":   "deploy??",
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
}

// In JSON the same characters are escaped, and mean what they meant.
func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"plain bäckup 夜":           `"plain bäckup 夜"`,
		"a\x1b[31mb\u009b31mc\x7f": `"a\u001b[31mb\u009b31mc\u007f"`,
		"rtl\u202eabc\u2066d":      `"rtl\u202eabc\u2066d"`,
		"\U000e0067\U000f0000":     `"\udb40\udc67\udb80\udc00"`,
		"🏴\U000e0067\U0001faff":    "",
	} {
		var out strings.Builder
		err := json.NewEncoder(JSON(&out)).Encode(text)
		if err != nil || want != "" && out.String() != want+"\n" {
			t.Errorf("%q as JSON: %q, %v, want %q", text, out.String(), err, want)
		}
		var back string
		err = json.Unmarshal([]byte(out.String()), &back)
		if err != nil || back != text {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
	}
}
