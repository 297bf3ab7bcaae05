// Package fire runs the command as its users do, many times at once and over few locks, on a local keeper,
// while its processes, one or two of the three, and the keeper are killed and frozen at random. An outside
// register, which is a file that each child and all that it starts keep locked, tells whether a child was
// let run beside what was left of another.
//
//	make fire GRANTS=1000
package fire
