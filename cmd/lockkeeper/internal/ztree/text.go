package ztree

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Escape returns s with everything that does not print, or that changes the order in which text is shown, as Go writes
// it in a string: U+202E becomes \u202e. Names of znodes are made by strangers.
func Escape(s string) string {
	plain := true
	for _, r := range s {
		if r == utf8.RuneError || !printable.Visible(r) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError:
			_, size := utf8.DecodeRuneInString(s[i:])
			q := strconv.Quote(s[i : i+size])
			b.WriteString(q[1 : len(q)-1])
		case printable.Visible(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteToASCII(string(r))
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// Shown returns data for a line of a table: escaped, and cut after max characters.
func Shown(data []byte, max int) string {
	if data == nil {
		return "null"
	}
	text := []rune(Escape(string(data[:min(len(data), 4*max)])))
	if len(text) > max || len(data) > 4*max {
		return string(text[:min(len(text), max)]) + "…"
	}
	return string(text)
}

// IsText reports whether data can be shown at a terminal as it is.
func IsText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	for _, r := range string(data) {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return false
		}
	}
	return true
}

// permLetters are ZooKeeper's, in the order in which zkCli prints them.
var permLetters = []struct {
	perm   zk.Perm
	letter byte
}{{zk.PermCreate, 'c'}, {zk.PermDelete, 'd'}, {zk.PermRead, 'r'}, {zk.PermWrite, 'w'}, {zk.PermAdmin, 'a'}}

// FormatPerms writes permissions as letters, "cdrwa" for all.
func FormatPerms(p zk.Perm) string {
	var b []byte
	for _, l := range permLetters {
		if p&l.perm != 0 {
			b = append(b, l.letter)
		}
	}
	return string(b)
}

// FormatACL writes an access control list as ParseACL reads it.
func FormatACL(acl []zk.ACL) string {
	entries := make([]string, len(acl))
	for i, a := range acl {
		entries[i] = Escape(a.Scheme + ":" + a.ID + ":" + FormatPerms(a.Perms))
	}
	return strings.Join(entries, ",")
}

// ParseACL reads an access control list, "scheme:id:rwcda" separated by commas; the id is what stands between the first
// and the last colon.
func ParseACL(text string) ([]zk.ACL, error) {
	var acl []zk.ACL
	for _, entry := range splitACL(text) {
		entry = strings.TrimSpace(entry)
		first, last := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
		if first <= 0 || first == last {
			return nil, fmt.Errorf("ACL entry %q is not scheme:id:permissions (as in world:anyone:cdrwa)", entry)
		}
		a := zk.ACL{Scheme: entry[:first], ID: entry[first+1 : last]}
		for _, c := range []byte(entry[last+1:]) {
			perm := zk.Perm(0)
			for _, l := range permLetters {
				if l.letter == c {
					perm = l.perm
				}
			}
			if perm == 0 {
				return nil, fmt.Errorf("ACL entry %q: %q is no permission (they are c create, d delete, r read, w write, a admin)", entry, c)
			}
			a.Perms |= perm
		}
		if a.Perms == 0 {
			return nil, fmt.Errorf("ACL entry %q grants nothing (permissions are letters of cdrwa)", entry)
		}
		switch a.Scheme {
		case "world":
			if a.ID != "anyone" {
				return nil, fmt.Errorf("ACL entry %q: the only id of the scheme world is anyone", entry)
			}
		case "ip":
			if _, err := netip.ParseAddr(a.ID); err != nil {
				if _, err := netip.ParsePrefix(a.ID); err != nil {
					return nil, fmt.Errorf("ACL entry %q: %q is no IP address, and no network as in 10.0.0.0/8", entry, a.ID)
				}
			}
		case "digest":
			user, hash, ok := strings.Cut(a.ID, ":")
			if sum, err := base64.StdEncoding.DecodeString(hash); !ok || user == "" || err != nil || len(sum) != sha1.Size {
				return nil, fmt.Errorf("ACL entry %q: a digest id is user:hash, with the SHA-1 of user:password in base64 as the hash", entry)
			}
		}
		acl = append(acl, a)
	}
	return acl, nil
}

// splitACL splits a list at its commas, but for those of a certificate's name, as in x509:CN=ann,O=Ex\, Inc:r. What follows them has no
// scheme.
func splitACL(text string) (entries []string) {
	for part := range strings.SplitSeq(text, ",") {
		last := len(entries) - 1
		scheme, _, _ := strings.Cut(part, ":")
		if last >= 0 && (strings.Contains(scheme, "=") || strings.HasSuffix(entries[last], `\`)) {
			entries[last] += "," + part
		} else {
			entries = append(entries, part)
		}
	}
	return entries
}

// Time reads one of a stat's times.
func Time(ms int64) time.Time { return time.UnixMilli(ms) }

// StatLines writes a stat as zkCli does, a field a line.
func StatLines(st *zk.Stat) string {
	const layout = "Mon Jan 02 15:04:05 MST 2006"
	var b strings.Builder
	fmt.Fprintf(&b, "cZxid = 0x%x\n", st.Czxid)
	fmt.Fprintf(&b, "ctime = %s\n", Time(st.Ctime).Format(layout))
	fmt.Fprintf(&b, "mZxid = 0x%x\n", st.Mzxid)
	fmt.Fprintf(&b, "mtime = %s\n", Time(st.Mtime).Format(layout))
	fmt.Fprintf(&b, "pZxid = 0x%x\n", st.Pzxid)
	fmt.Fprintf(&b, "cversion = %d\n", st.Cversion)
	fmt.Fprintf(&b, "dataVersion = %d\n", st.Version)
	fmt.Fprintf(&b, "aclVersion = %d\n", st.Aversion)
	fmt.Fprintf(&b, "ephemeralOwner = 0x%x\n", uint64(st.EphemeralOwner))
	fmt.Fprintf(&b, "dataLength = %d\n", st.DataLength)
	fmt.Fprintf(&b, "numChildren = %d\n", st.NumChildren)
	return b.String()
}

// Kind says what kind of znode has this stat. Servers do not tell containers and znodes with a time to live from
// persistent ones.
func Kind(st *zk.Stat) string {
	if Ephemeral(st) {
		return "ephemeral"
	}
	return "persistent"
}

// Ephemeral reports whether a session owns the znode.
func Ephemeral(st *zk.Stat) bool { return st.EphemeralOwner != 0 }
