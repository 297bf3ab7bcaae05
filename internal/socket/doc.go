// Package socket reads and writes connections of package net in a cheaper way than that does, by system calls that Go's scheduler does
// not know of, and tells what their errors mean. It knows nothing of ZooKeeper.
package socket
