// Package group is membership: which instances are there. A member is an ephemeral znode below the group's path.
//
//	m, err := group.Join(ctx, keeper, "/workers", "worker-7", []byte("10.0.0.7:8080"), group.JoinOptions{})
//	…
//	g, err := group.Open(ctx, keeper, "/workers", group.Options{})
//	for _, m := range g.Members() { … }
//
// # Guarantees
//
//   - A member has one znode, never two, whatever answers are lost and sessions expire.
//   - It comes back when its session has expired (after the session timeout and two round trips), and when another
//     client deletes its znode.
//   - After Member.Close has returned nil, the znode is gone and does not come back.
//   - A Group shows what has changed once it has heard of it; see package cache for what it promises.
//
// # Formats
//
// Members are written as Curator's GroupMember writes them: PATH/ID, with the data as it is. A Group also reads the
// members of kazoo's Party (PATH/<32 hex digits>__party__, the data is the identifier) and ShallowParty
// (PATH/<32 hex digits>-<identifier>).
//
// # Limits
//
// An id is the name of a znode, so it has no slash. Two members with the same id are one: the second waits until the first
// has left or its session has ended, or takes over from another session if
// JoinOptions.TakeOver is set.
//
// Joining is linear: a member watches its own znode and nothing else, so a thousand that join at once cause some events
// for each. A Group gets an event for each change of the group; not every member needs one. With ZooKeeper 3.6
// to 3.8, a one-shot watch of the same session at the group's path makes it miss changes.
package group
