// Package tree is the heart of the server: the znodes, the permissions on them, and what a
// request becomes before it is logged.
//
// A write goes through it twice. A Draft decides the request: it checks it against the tree as it
// will be once everything decided before has been applied, and gives the transaction to log, which
// holds results and not wishes. When that is on disk, Tree.Apply carries it out. The same Apply
// replays a log over a snapshot, which may be fuzzy: overlapping with the log it is the base of.
//
// The package is pure: no clock, no disk, no socket, no goroutine and no lock. Time and zxids come
// with the request. The owner of a Tree guards it: any number of readers at once, or one writer.
// Apply, DropOrphans and Restorer write; all else, and all of Draft and Cursor, only reads the tree.
//
// Memory decides the shape: a million znodes of 100 bytes take 212 bytes each, data included (see
// BenchmarkMillion). Nodes lie in slabs and refer to each other by number; one index for the whole
// tree, keyed by parent and name, finds children, and a list through the siblings counts them off,
// so that a directory may have a million children and creating one more costs the same. An index
// keyed by whole paths would save a lookup for each level and cost every node its path.
//
// Byte slices and ACLs that come out are the tree's own. They stay valid and unchanged for as long
// as they are kept, also without the guard. Callers must not change them.
package tree
