// Package ensemble sets ensembles of Apache ZooKeeper up. It writes the files of new ones (init), and turns the data of a
// single server into an ensemble (grow).
//
// Guarantees:
//
//  1. No file is overwritten. A directory that holds other files is refused; one with the same files is left as it is.
//  2. A member with an empty data directory takes part in no election (db.autocreate=false), unless the file "initialize"
//     says that it begins empty. That file is written once, for the first start of a new ensemble, and never by grow.
//  3. Grow changes nothing in the source. It has all members' data written, synced and read again before it returns.
//
// A member's directory holds what belongs to its machine:
//
//	zoo.cfg              the same on all machines
//	data/myid            the member's number
//	data/initialize      a new ensemble only: Apache ZooKeeper deletes it at the first start
//	data/version-2/      grow only: snapshots and transaction logs
//	tls/                 with TLS: certificates with their keys, and the authorities
//	zookeeper.service    with the format systemd
package ensemble
