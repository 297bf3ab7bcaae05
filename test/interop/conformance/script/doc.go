// Package script is a small language for talking to a ZooKeeper server on the level of its wire
// protocol, and a player for it that writes down all that comes back, in a form that can be
// compared between servers.
//
// A file holds cases. A case begins with a line "== name"; then each line is a step:
//
//	a connect                        # a connection called a, with a session of its own
//	a create /x data open 0          # a request; the step is over when it is answered
//	a setData /x y -1 | getData /x   # requests sent in one write, and all their answers
//	a exists /x ~ some-difference    # where the servers are meant to differ
//	b connect resume=a               # another connection for the session of a
//	b connect | exists /             # with requests that do not wait for the session
//	b dial                           # a connection that has asked for nothing yet
//	b raw 00000004 00000000          # bytes, in hexadecimal
//	b receive                        # waits for one event
//	b eof                            # waits until the server hangs up
//	b drop                           # hangs up
//
// Words are separated by spaces; one with special characters is quoted as in Go. Requests are named
// as in the protocol, and their arguments are its fields, in order. In the place of any string
// or buffer null stands for null; data may be given as x*1000, an x a thousand times. An access
// control list is open, null, empty, or entries like rwcda:world:anyone or 31:digest:bob:hash with
// commas between them. A list of strings is null, - (empty), or strings with commas between them. A null may stand in
// either, as in 31:auth:null or /x,null. The operations of a multi are separated by ";", each a word of its own. In
// front of a request, xid=N sets its xid, trunc=N cuts N bytes from its end, pad=N appends as many,
// size=N appends as many as make a frame of that size, and unordered says that the entries of a
// list in the answer have no order.
package script
