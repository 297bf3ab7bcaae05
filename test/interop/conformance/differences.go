package conformance

import "regexp"

// A difference is something in which our server is meant to behave otherwise than Apache ZooKeeper
// 3.8.0: as a later release does, or better. Of an answer to a request that matches, what apache
// finds is replaced with ours, and the result must be our answer.
type difference struct {
	name    string
	reason  string
	request *regexp.Regexp
	apache  *regexp.Regexp // in what came back, which may be several lines
	ours    string         // as in Regexp.ReplaceAllString; "…" is what the pattern cannot know
}

const (
	stat = `\{c[^}]*\}` // as the player writes it
	all  = `(?s)^.*$`
	head = `(xid \S+ at \S+)`
)

// differences lists all of them.
var differences = []difference{
	{
		name:    "exists-needs-read",
		reason:  "since 3.8.4 and 3.9.2, exists is refused to clients that may not read the znode",
		request: regexp.MustCompile(`\bexists\b`),
		apache:  regexp.MustCompile(head + ` ` + stat), ours: "$1 error -102",
	},
	{
		name:    "mode-in-multi",
		reason:  "since 3.8.3, a mode that does not exist makes the whole multi impossible to decode",
		request: regexp.MustCompile(`\bmulti\b.*\bcreate`),
		apache:  regexp.MustCompile(` \[-1 false .*$`), ours: " error -5",
	},
	{
		name:    "create2-in-multi",
		reason:  "since 3.8.3 and 3.9.0 the result has the type that was asked for, and a stat (ZOOKEEPER-4026)",
		request: regexp.MustCompile(`\bmulti\b.*\bcreate2\b`),
		apache:  regexp.MustCompile(`\[1 false 0 ("[^"]*")\]`), ours: "[15 false 0 $1 {…}]",
	},
	{
		name:    "body-behind-an-error",
		reason:  "Apache ZooKeeper sends what it had of the answer; clients ignore it. Nor does it log the transaction that it counts",
		request: regexp.MustCompile(`\bmulti`),
		apache:  regexp.MustCompile(`at \S+ error -5 and ffffffff01ffffffff`), ours: "at … error -5",
	},
	{
		name:    "watcher-types-4-and-5",
		reason:  "since 3.9.0, persistent and recursive watches can be asked for by themselves",
		request: regexp.MustCompile(`\b(check|remove)Watches\b.* [45]\b`),
		apache:  regexp.MustCompile(` error -5`), ours: "",
	},
	{
		name:    "no-such-watch-of-types-4-and-5",
		reason:  "since 3.9.0, persistent and recursive watches can be asked for by themselves",
		request: regexp.MustCompile(`\b(check|remove)Watches\b.* [45]\b`),
		apache:  regexp.MustCompile(` error -5`), ours: " error -121",
	},
	{
		name:    "halves-of-persistent-watches",
		reason:  "since 3.9.0, types 1 and 2 stand for one-shot watches only",
		request: regexp.MustCompile(`\b(check|remove)Watches\b.* [12]\b`),
		apache:  regexp.MustCompile(`(at \S+)$`), ours: "$1 error -121",
	},
	{
		name:    "watches-of-others",
		reason:  "3.8.0 finds a watch if any connection has one on the path; since 3.9.0, if the asking connection has",
		request: regexp.MustCompile(`\bcheckWatches\b`),
		apache:  regexp.MustCompile(`(at \S+)$`), ours: "$1 error -121",
	},
	{
		name:    "one-shot-over-persistent",
		reason:  "since 3.9.0, the kinds of watches on one path are independent; before, the last one set replaced the others",
		request: regexp.MustCompile(`\bping\b`),
		apache:  regexp.MustCompile(all), ours: "event data changed \"/x\" at none\nxid -2 at …",
	},
	{
		name:    "check-alone",
		reason:  "3.8.0 logs a check outside a multi and cannot start again; refused since 3.8.5 and 3.9.3",
		request: regexp.MustCompile(`\bcheck\b`),
		apache:  regexp.MustCompile(`(xid \S+) at .*`), ours: "$1 at none error -6",
	},
	{
		name:    "delete-container-from-a-client",
		reason:  "a request between servers: 3.9.0 would carry it out for any client",
		request: regexp.MustCompile(`\bdeleteContainer\b`),
		apache:  regexp.MustCompile(`(xid \S+) at .*`), ours: "$1 at none error -6",
	},
	{
		name:    "create-session-from-a-client",
		reason:  "a transaction, not a request: 3.8.0 answers with the answer to a connect request",
		request: regexp.MustCompile(`\bop -10\b`),
		apache:  regexp.MustCompile(all), ours: "xid 1 at none error -6",
	},
	{
		name:    "ipv6-in-acls",
		reason:  "since 3.9.4, the ip scheme knows IPv6",
		request: regexp.MustCompile(`ip:[0-9a-f]*:`),
		apache:  regexp.MustCompile(` error -114`), ours: ` "/6"`,
	},
	{
		name:    "password-before-hanging-up",
		reason:  "3.8.0 puts the session's owner out before it looks at the password",
		request: regexp.MustCompile(`\bping\b`),
		apache:  regexp.MustCompile(`^closed$`), ours: "xid -2 at …",
	},
	{
		name:    "identity-before-obedience",
		reason:  "a session that has shown an identity obeys no connection that has not: a password alone does not steal it",
		request: regexp.MustCompile(`\bgetData /proven\b`),
		apache:  regexp.MustCompile(all), ours: "closed",
	},
	{
		name:    "empty-path",
		reason:  "Apache ZooKeeper finds the root under the empty path, too; no client sends it",
		request: regexp.MustCompile(`""`),
		apache:  regexp.MustCompile(`(?m)` + head + ` [^e\n].*$`), ours: "$1 error -101",
	},
	{
		name:    "null-path",
		reason:  "a path that is null cannot be decoded, whatever is done with it; Apache ZooKeeper watches it, or echoes it",
		request: regexp.MustCompile(`\b(addWatch|sync) null\b`),
		apache:  regexp.MustCompile(`(at \S+) (0|null)$`), ours: "$1 error -5",
	},
	{
		name:    "no-watch-on-a-null-path",
		reason:  "a path that is null cannot be decoded; Apache ZooKeeper looks for a watch on it, and finds none",
		request: regexp.MustCompile(`\bremoveWatches null\b`),
		apache:  regexp.MustCompile(` error -121$`), ours: " error -5",
	},
	{
		name:    "null-among-other-entries",
		reason:  "a null scheme is an invalid entry, wherever it stands; Apache ZooKeeper fails when it compares it with the entry before",
		request: regexp.MustCompile(`,31:null:null\b`),
		apache:  regexp.MustCompile(` error -5$`), ours: " error -114",
	},
	{
		name:    "null-token",
		reason:  "our server has no SASL, and says so; Apache ZooKeeper hangs up",
		request: regexp.MustCompile(`\bsasl null\b`),
		apache:  regexp.MustCompile(`^closed$`), ours: "xid 1 at 0 error -115",
	},
	{
		name:    "echo-of-no-text",
		reason:  "sync answers with the path as it came; Apache ZooKeeper replaces what is not UTF-8",
		request: regexp.MustCompile(`\bsync "\\xff"`),
		apache:  regexp.MustCompile(`"\x{fffd}"`), ours: `"\xff"`,
	},
	{
		name:    "reconfig-that-ends-early",
		reason:  "a refused reconfig takes a transaction, whatever is wrong with it",
		request: regexp.MustCompile(`\btrunc=\S+ reconfig\b`),
		apache:  regexp.MustCompile(`at \S+ error -5`), ours: "at … error -5",
	},
	{
		name:    "no-sasl",
		reason:  "our server has no SASL, and says so; Apache ZooKeeper that is not set up for it answers with no token",
		request: regexp.MustCompile(`\bsasl\b`),
		apache:  regexp.MustCompile(` and ffffffff$`), ours: " error -115",
	},
	{
		name:    "auth-that-ends-early",
		reason:  "Apache ZooKeeper hangs up without an answer",
		request: regexp.MustCompile(`\btrunc=\S+ auth\b`),
		apache:  regexp.MustCompile(`^closed$`), ours: "xid -4 at 0 error -115",
	},
}
