package partition

import "hash/fnv"

// Spread gives each item to the member for which a hash of both is the largest (rendezvous hashing). When a member comes
// or goes, no item moves between the others. Shares are equal on average.
func Spread(items, members []string, member string) []string {
	var own []string
	for _, item := range items {
		best, owner := uint64(0), ""
		for _, m := range members {
			if sum := hash(m, item); owner == "" || sum > best || sum == best && m < owner {
				best, owner = sum, m
			}
		}
		if owner == member {
			own = append(own, item)
		}
	}
	return own
}

// hash is FNV-1a of both texts with its bits spread, because its high ones hardly depend on the end of a text.
func hash(a, b string) uint64 {
	f := fnv.New64a()
	f.Write([]byte(a))
	f.Write([]byte{0})
	f.Write([]byte(b))
	h := f.Sum64()
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Slices gives a member every nth item, as kazoo's SetPartitioner does. Shares differ by one item at most, but most items
// move when a member comes or goes. Members with the same id have one share; kazoo counts each.
func Slices(items, members []string, member string) []string {
	var own []string
	for i, m := range members {
		if m != member {
			continue
		}
		for at := i; at < len(items); at += len(members) {
			own = append(own, items[at])
		}
		break
	}
	return own
}
