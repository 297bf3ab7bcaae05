package zk

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestValidatePath(t *testing.T) {
	for _, path := range []string{"/", "/a", "/a/b", "/...", "/.x", "/a/..b", "/a b", "/ünï", "/~", "/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/" + strings.Repeat("x", 100_000)} {
		if err := ValidatePath(path); err != nil {
			t.Errorf("ValidatePath(%.20q) = %v, want nil", path, err)
		}
	}
	for path, reason := range map[string]string{
		"":              "is empty",
		"a":             "does not begin with /",
		"a/b":           "does not begin with /",
		"/a/":           "ends with /",
		"//":            "ends with /",
		"//a":           "empty component",
		"/a//b":         "empty component",
		"/.":            "relative component .",
		"/..":           "relative component ..",
		"/a/./b":        "relative component .",
		"/a/..":         "relative component ..",
		"/a\x00":        "U+0000 at byte 2",
		"/\x01":         "U+0001",
		"/\x1f/b":       "U+001F",
		"/\x7f":         "U+007F",
		"/\u0080":       "U+0080",
		"/\u009f":       "U+009F",
		"/\ue000":       "U+E000",
		"/\uf8ff":       "U+F8FF",
		"/\ufff0":       "U+FFF0",
		"/\uffff":       "U+FFFF",
		"/\U00010000":   "U+10000",
		"/\U0001f512":   "U+1F512",
		"/a\xff":        "is not UTF-8 at byte 2",
		"/\uFFFD":       "U+FFFD",
		"/\xed\xa0\x80": "is not UTF-8 at byte 1", // a surrogate
		"/good/\xc3":    "is not UTF-8 at byte 6",
	} {
		err := ValidatePath(path)
		var bad *PathError
		if !errors.As(err, &bad) || bad.Path != path || !errors.Is(err, ErrBadArguments) || !strings.Contains(err.Error(), reason) {
			t.Errorf("ValidatePath(%q) = %v, want a *PathError that says %q", path, err, reason)
		}
	}
}

func TestPathParts(t *testing.T) {
	for _, tt := range []struct{ path, parent, base string }{
		{"/", "/", ""}, {"/a", "/", "a"}, {"/a/b", "/a", "b"}, {"/a/b/c-1", "/a/b", "c-1"},
	} {
		if got := Parent(tt.path); got != tt.parent {
			t.Errorf("Parent(%q) = %q, want %q", tt.path, got, tt.parent)
		}
		if got := Base(tt.path); got != tt.base {
			t.Errorf("Base(%q) = %q, want %q", tt.path, got, tt.base)
		}
		if got := Join(tt.parent, tt.base); tt.base != "" && got != tt.path {
			t.Errorf("Join(%q, %q) = %q, want %q", tt.parent, tt.base, got, tt.path)
		}
	}
}

func FuzzValidatePath(f *testing.F) {
	f.Add("/a/b")
	f.Add("/a/../b")
	f.Add("/\ufff0")
	f.Fuzz(func(t *testing.T, path string) {
		if ValidatePath(path) != nil || path == "/" {
			return
		}
		if got := Join(Parent(path), Base(path)); got != path {
			t.Errorf("%q falls apart into %q", path, got)
		}
		if err := ValidatePath(Parent(path)); err != nil {
			t.Errorf("the parent of %q: %v", path, err)
		}
	})
}

// The example of ZooKeeper's own documentation of the scheme, and others, as its servers compute them.
func TestDigestID(t *testing.T) {
	for _, tt := range []struct{ credential, want string }{
		{"bob:pw", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="},
		{"super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="},
		// What is not UTF-8.
		{"bob:\xe4x", "bob:bdfWt+vOOsu0Oup/jZJyNCUol50="},
		{"b\xf6b:pw", "b\ufffdb:hkWMMfTru/zh5sCGi+thwGPKQNo="},
		{"b\xe2\x82:p\xe2\x82x\xed\xa0\x80y\U0001f389z", "b\ufffd:nCvh48bZYSz4WV8CssVKHZMxF9I="},
	} {
		if got := DigestID(tt.credential); got != tt.want {
			t.Errorf("DigestID(%q) = %q, want %q", tt.credential, got, tt.want)
		}
	}
	acl := DigestACL(PermRead|PermWrite, "bob", "pw")
	if len(acl) != 1 || acl[0] != (ACL{3, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}) {
		t.Errorf("DigestACL = %v", acl)
	}
	if PermAll != 31 || OpenACL()[0] != (ACL{31, "world", "anyone"}) || CreatorACL()[0] != (ACL{31, "auth", ""}) {
		t.Errorf("ACLs: %v, %v", OpenACL(), CreatorACL())
	}
}

// A code is an error of its own, however far it travels; every code has a text, and no two the same.
func TestCodes(t *testing.T) {
	texts := map[string]Code{}
	for code, text := range codeTexts {
		if other, dup := texts[text]; dup {
			t.Errorf("%d and %d are both %q", code, other, text)
		}
		texts[text] = code
		if err := fmt.Errorf("get /a: %w", code); !errors.Is(err, code) {
			t.Errorf("%v is not %v", err, code)
		}
	}
	for code, want := range map[Code]Code{ErrNoNode: -101, ErrNoAuth: -102, ErrBadVersion: -103,
		ErrNoChildrenForEphemerals: -108, ErrNodeExists: -110, ErrNotEmpty: -111, ErrSessionExpired: -112, ErrInvalidACL: -114,
		ErrAuthFailed: -115, ErrSessionMoved: -118, ErrNotReadOnly: -119, ErrNoWatcher: -121, ErrQuotaExceeded: -125, ErrThrottled: -127,
		ErrMarshalling: -5, ErrUnimplemented: -6, ErrBadArguments: -8, ErrConnectionLoss: -4} {
		if code != want {
			t.Errorf("%q is %d, want %d", code.Error(), int32(code), int32(want))
		}
	}
	if got := Code(-99).Error(); got != "ZooKeeper error -99" {
		t.Errorf("unknown code: %q", got)
	}
}

func TestModes(t *testing.T) {
	for m := Persistent; m <= PersistentSequentialTTL; m++ {
		name := m.String()
		if m.Ephemeral() != strings.Contains(name, "ephemeral") || m.Sequential() != strings.Contains(name, "sequential") || m.TTL() != strings.Contains(name, "TTL") || !m.Valid() {
			t.Errorf("%d, %s: ephemeral %v, sequential %v, TTL %v", m, name, m.Ephemeral(), m.Sequential(), m.TTL())
		}
	}
	for _, m := range []Mode{-1, 7} {
		if m.Valid() || m.String() != fmt.Sprintf("Mode(%d)", int(m)) {
			t.Errorf("%v is valid", m)
		}
	}
}
