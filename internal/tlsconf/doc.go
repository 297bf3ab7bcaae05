// Package tlsconf makes the server's side of TLS from PEM files: a key with its certificates, the
// authorities of clients, and whether clients have to show a certificate. Guarantees:
//
//  1. files that change are read again without a restart, within a second of a connection that
//     comes after the change; connections that are open stay as they are;
//  2. files that cannot be used after a change leave in force what was read before, and say so in
//     the log once; they are tried again until they can be used, whatever kept them from it;
//  3. nothing older than TLS 1.2 is used, and no session is resumed past a certificate that has
//     been withdrawn since: there is no resumption.
//
// Code that makes a client's side finds KeyPair and Store.Authorities here, which read the files.
//
// It reads ZooKeeper's settings ssl.keyStore.*, ssl.trustStore.* and ssl.clientAuth as far as they
// name PEM files. Java's own stores are refused with the command that converts them.
package tlsconf
