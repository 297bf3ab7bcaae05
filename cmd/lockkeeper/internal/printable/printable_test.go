package printable

import "testing"

// A name or label of another user neither moves the cursor nor turns the direction of the line.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"nightly-bäckup 夜":    "nightly-bäckup 夜",
		"a\x1b[31mb\r\nc\x7f": "a?[31mb??c?",
		"rtl\u202eabc\u2066d": "rtl?abc?d",
		"\u0085next\u200f":    "?next?",
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
}
