// Package crash kills the server with SIGKILL while clients write, many times over one data directory,
// and compares what is there after each restart with what the clients remember. The server is the real
// command; the clients are go-zookeeper's, which knows nothing of us. Required is that
//
//  1. what was acknowledged is there, with its data and its version, and what was deleted is not;
//  2. a request that was not answered has happened as a whole or not at all;
//  3. an ephemeral is there as long as its session may come back, and gone soon after that;
//  4. a session outlives any number of crashes that are shorter than its timeout;
//  5. Apache ZooKeeper finds the same in the directory that the last crash has left.
//
// A killed process leaves what it wrote to the kernel, synced or not: what a loss of power leaves is for
// tests of the store to say.
package crash
