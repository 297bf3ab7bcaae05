// Package server is a ZooKeeper server: one process, one data directory, the protocol, the answers
// and the files of Apache ZooKeeper 3.9 in standalone mode.
//
// Guarantees:
//
//  1. A write is answered after it, and all before it, is on disk. A reader never sees a state
//     that is not.
//  2. The answers on a connection come in the order of its requests. An event comes before the
//     answer to the request that caused it and before any answer that reflects the new state.
//  3. Once a session has been attached to a new connection, no request of its old one is executed.
//  4. A session lives at least its granted timeout from the last frame received, and at most one
//     tick longer. What comes before a new connection has shown the session's credentials again
//     does not count. With it go, in one transaction, all its ephemeral znodes. After a restart every
//     session has its full timeout again.
//  5. A client that is slow, silent or hostile costs the others nothing but its share of the
//     machine: everything it can make the server keep has a limit.
//  6. If the disk fails, the server stops and says so. It acknowledges nothing it is not sure of.
//
// It is not an ensemble. For more than one machine there is Apache ZooKeeper, which takes the data
// directory over as it is.
package server
