// Package guides holds the code that docs/migrate.md shows as ours: it compiles, its tests run it, and the guide quotes it
// word for word. It exports nothing.
package guides
