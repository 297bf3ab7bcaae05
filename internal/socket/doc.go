// Package socket reads and writes connections of package net in a cheaper way than that does: by system calls that Go's scheduler does
// not know of. It knows nothing of ZooKeeper.
package socket
