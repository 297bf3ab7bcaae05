// Package guides holds the code that docs/migrate.md and docs/roles.md show as ours: it compiles, its tests run it, and the guides quote it
// word for word. It exports nothing.
package guides
