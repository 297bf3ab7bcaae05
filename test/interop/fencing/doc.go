// Package fencing tests the fencing register of package fence in real databases, PostgreSQL and SQLite,
// and with real processes that are frozen between looking at their hold and writing.
package fencing
