// Package roles tries the packages beside locks (cache, config, group, discovery, counter, barrier, partition) in virtual
// time, on a leader with two followers that lag, while answers are lost, connections break and hang, sessions expire, followers
// are cut off and other clients delete znodes. One seed decides what happens. Each package has invariants:
//
//	group, discovery   a member has its znode while it is one, and no znode appears once Close has returned nil; what a Group
//	                   and a Directory show in the end is what there is; changes are told once and in order
//	cache, config      what is told is what was written, in order, each version once; in the end nothing is missing; a bad
//	                   configuration is never in force
//	counter            no increment is lost or doubled: each confirmed one has a value of its own
//	barrier            no member passes a barrier before all have come, or leaves before all want to
//	partition          no item is worked on by two members; in the end each is worked on
//
// The tests print the seed of each failure. To repeat one: go test ./roles -roles.seed=N. Go's scheduler is not seeded here, so
// a seed may need several runs (-count).
package roles
