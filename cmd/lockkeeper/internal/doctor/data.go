package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The limits above which there is a finding about data.
const (
	fewerNodesShare = 0.9
	fewerNodesLeast = 10
	epochShift      = 32
	juteDefault     = 0xfffff // bytes
	largeShare      = 0.5     // of jute.maxbuffer
	wideChildren    = 10_000
	listedNameLeast = 5 // bytes of an answer: the length, and one character
	pathsInEvidence = 5
	mendLarge       = "keep large data elsewhere, and its place in the znode; or raise jute.maxbuffer on all servers and clients alike"
	mendWide        = "spread the children over several znodes, and delete those that are done with"
)

// data compares the data of the servers.
func (x *examination) data() {
	most, newest := 0, int64(0)
	quiet := false // no transaction since the election: followers still have the zxids of before
	versions := map[string]bool{}
	for _, s := range x.alive() {
		most, newest = max(most, s.Status.Znodes), max(newest, epoch(s.Status.Zxid))
		quiet = quiet || s.Status.Mode == "leader" && counter(s.Status.Zxid) == 0
		version, _, _ := strings.Cut(s.Status.Version, "-")
		versions[version] = true
	}
	for _, s := range x.alive() {
		if float64(s.Status.Znodes) < fewerNodesShare*float64(most) && most-s.Status.Znodes > fewerNodesLeast {
			x.find(Critical, "znodes", s.Name, "do not restart the others before it has caught up: if it led, the rest would be lost", "it has %d znodes, and another has %d", s.Status.Znodes, most)
		}
		if own := epoch(s.Status.Zxid); own < newest && !quiet {
			x.find(Warning, "epoch", s.Name, "see its log: it has not followed since the last election", "its zxid %s is of epoch %d, and another's of %d", s.Status.Zxid, own, newest)
		}
	}
	if len(versions) > 1 {
		x.find(Warning, "versions", "", "finish the upgrade", "the servers are of different versions: %s", strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	}
}

// counter returns how many transactions an epoch had up to a zxid.
func counter(zxid string) uint32 { return uint32(zxidOf(zxid)) }

func epoch(zxid string) int64 { return int64(zxidOf(zxid) >> epochShift) }

func zxidOf(text string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// juteMax returns the least limit of an answer or a request that a server is known to have.
func (x *examination) juteMax() int {
	least := juteDefault
	for i, s := range slices.DeleteFunc(slices.Clone(x.Servers), func(s Server) bool { return s.Properties == nil }) {
		n := juteDefault
		if own, err := strconv.ParseInt(s.Properties[propertyJute], 0, 32); err == nil {
			n = int(own)
		}
		if i == 0 || n < least {
			least = n
		}
	}
	return least
}

// tree judges what a walk has found.
func (x *examination) tree() {
	t := x.Tree
	if t == nil {
		return
	}
	limit := x.juteMax()
	var large, wide, beyond []string
	for _, n := range t.Largest {
		if float64(n.Bytes) > largeShare*float64(limit) {
			large = append(large, fmt.Sprintf("%s (%d bytes)", n.Path, n.Bytes))
		}
	}
	for _, n := range t.Widest {
		text := fmt.Sprintf("%s (%d children)", n.Path, n.Children)
		switch {
		case n.Children*listedNameLeast > limit:
			beyond = append(beyond, text)
		case n.Children >= wideChildren:
			wide = append(wide, text)
		}
	}
	if len(large) > 0 {
		x.find(Warning, "large", "", mendLarge, "data near jute.maxbuffer, %d bytes, beyond which no server takes or sends a record: %s", limit, some(large))
	}
	if len(beyond) > 0 {
		x.find(Critical, "wide", "", "raise jute.maxbuffer on the servers and on the client that deletes children, until there are few again; then "+mendWide, "the listing is larger than jute.maxbuffer, %d bytes, so no client can have it: %s", limit, some(beyond))
	}
	if len(wide) > 0 {
		x.find(Warning, "wide", "", mendWide, "each listing is large, and one beyond jute.maxbuffer, %d bytes, cannot be sent: %s", limit, some(wide))
	}
	switch {
	case t.Stopped != "":
		x.find(Note, "deep", "", "lockkeeper z top PATH looks at a part of the tree without a limit", "the walk from %s ended after %d znodes: %s", t.Root, t.Znodes, t.Stopped)
	case len(t.Skipped) > 0:
		x.find(Note, "deep", "", "lockkeeper z top PATH looks at a part of the tree without a limit", "the walk from %s saw %d znodes; left out, for the size of the listing, was what is below %s", t.Root, t.Znodes, some(t.Skipped))
	}
}

// some returns the first few texts of a list.
func some(all []string) string {
	if rest := len(all) - pathsInEvidence; rest > 0 {
		return strings.Join(all[:pathsInEvidence], ", ") + " and " + strconv.Itoa(rest) + " more"
	}
	return strings.Join(all, ", ")
}
