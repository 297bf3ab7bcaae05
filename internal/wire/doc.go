// Package wire turns the messages of ZooKeeper's client protocol into bytes and back.
//
// Every message travels in a frame: a big-endian int32 length and that many bytes. Inside are
// records in "jute" encoding: fields in order, no tags; integers big-endian; strings and buffers
// behind an int32 length, vectors behind an int32 count, −1 for null. The first frame in each
// direction is a ConnectRequest and a ConnectResponse; after that a request is a RequestHeader and
// the record that belongs to its Op, an answer is a ReplyHeader and, if its Err is zero, the record
// of the response.
//
// Encoding appends to a caller's slice and allocates nothing of its own. Decoding goes through
// Decoder, the one place where a length from outside is believed, after it has been checked. There
// is no reflection and no recover. The same records serve the client, the server and the tests'
// proxies, so each of them has both directions.
package wire
