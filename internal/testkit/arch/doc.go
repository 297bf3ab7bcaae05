// Package arch holds the rules of the house as tests: which part may lean on which, and why. It has no
// code of its own.
package arch
