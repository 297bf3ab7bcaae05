// Package cache keeps a part of ZooKeeper's tree in memory: the subtree below a znode, or one znode.
//
//	c, err := cache.Open(ctx, keeper, "/config", cache.Options{})
//	…
//	node, ok := c.Get("/config/limit")          // no request, no lock
//	for change, err := range c.Changes(ctx) { … } // what there is, and then what changes
//
// # Guarantees
//
//   - Open returns when the whole part has been read. That and every later View is a state that the server had at one
//     moment, unless writers leave no gap for several rounds of reading; then it is the newest of each znode.
//   - A znode never goes back: its values follow each other in the order of their zxids.
//   - A reader of Changes learns of every znode that is created, changed or deleted, and nothing twice. Several changes
//     of one znode that follow each other quickly may be told as one, and a znode that is deleted soon after it was
//     created not at all.
//   - When events may have been missed, because the connection or the session was lost, everything is read again, and
//     a change of the kind Reread comes before the differences.
//   - The root may be missing. It may be deleted and created again, with everything below it.
//   - A View never changes. Readers take no lock, and an event from the server is read once for all readers.
//
// # Limits
//
// The cache follows the server that the session is connected to, which may be behind the leader; after Session.Sync, and
// once the changes have been read, it is not behind what was there before. While there is no connection, it keeps what
// it has; State says so.
//
// ZooKeeper tells nothing of changes of ACLs. Znodes that the session may not read are left out, with what is below
// them, until an event of theirs or a Reread finds them readable. One that is hidden later stays until then in the same
// way. If the root may not be read, the cache ends with zk.ErrNoAuth. Of a znode's Stat, the fields about its children
// (Cversion, Pzxid, NumChildren) are those of the moment at which the znode itself was read last.
//
// ZooKeeper 3.6 to 3.8 keeps one kind of watch for each connection and path, the newest. With these, two caches of one Keeper at one
// path have to agree in Options.Single, and the session must not set a one-shot watch there, or a cache misses changes without a word.
//
// The cache uses one persistent recursive watch (server 3.6 or later). Where the server has none, as with its option
// WatchManagerOptimized, it sets two one-shot watches for each znode and keeps the same promises, for up to OneShotNodesMax znodes.
package cache
