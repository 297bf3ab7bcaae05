// Package conformance asks our server and Apache ZooKeeper 3.8.0 the same things and compares what
// they answer.
//
// Nothing is expected but what Apache ZooKeeper does: a script in testdata is played to both, line
// by line, and every answer, event and hanging-up must be the same, byte by byte once zxids are
// counted from the start of the case, session ids are replaced by the names of their connections
// and times by "now". Where the two are meant to differ, the line of the script says so and the
// table in differences.go says why.
//
// Beside the scripts there are random ones (-random says how many requests), which the same player
// plays. Packages below hold clients that are not ours against our server, and data directories
// that go back and forth between the two servers.
package conformance
