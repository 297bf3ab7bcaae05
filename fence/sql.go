package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A Dialect is a database's way to say it.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota // 9.5 and later
	SQLite                    // 3.24 and later
)

func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// A Querier is a *sql.Tx, or a *sql.Conn on which the caller has begun a transaction by hand. For Table.Newest alone it
// may be a *sql.DB, too.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Table is a register in the database that holds what is protected: one row for each resource. The
// comparison is made in the caller's own transaction, so it and what it protects are committed together
// or not at all.
//
// # Isolation
//
// Check is one statement that compares, remembers, and locks the resource's row until the transaction
// ends, so transactions that check one resource run one after another, whatever the isolation level:
//
//   - PostgreSQL, read committed (the default): a transaction that finds the row locked waits, and then
//     compares with what was committed, not with what it saw when it began. Nothing else is needed.
//   - PostgreSQL, repeatable read and serializable: a transaction that had to wait, or that began before
//     another one was committed, fails with SQLSTATE 40001. That is not a refusal, and nothing was
//     written: roll back and run the whole transaction again, as one has to at these levels anyway.
//   - SQLite: a database has one writer at a time, and Check makes its transaction the writer. If it is
//     the first statement, the transaction waits for its turn as long as the connection's busy_timeout
//     says, and so long also if ctx ends meanwhile, which does not interrupt it: keep it short. If the
//     transaction has read before, SQLITE_BUSY may come at once: run it again, or begin with BEGIN
//     IMMEDIATE.
//
// So let Check be the first statement: what is read before it may be out of date by the time that it
// returns. If one transaction checks several resources, check them in the order of their names, lest two
// wait for each other.
//
// A holder that is paused within its transaction keeps the row, and the next holder waits. In PostgreSQL,
// idle_in_transaction_session_timeout ends such a transaction: set it to about the time that the lock's
// session takes to expire. In SQLite nothing does but the end of the process.
type Table struct {
	dialect              Dialect
	create, check, query string
}

// tableName is a name that needs no quoting, with a schema or without.
var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// NewTable returns the register in the table of that name, which may have a schema in front:
// lower-case letters, digits and underscores, at most 63 of them, no digit first, and no word of SQL's. The schema of temporary tables is refused, since each
// connection has one of its own.
func NewTable(d Dialect, name string) (*Table, error) {
	if !tableName.MatchString(name) {
		return nil, fmt.Errorf("fence: %q is not a plain name of a table (lower-case letters, digits and underscores, no digit first)", name)
	}
	if d == PostgreSQL && strings.HasPrefix(name, "pg_temp.") || d == SQLite && strings.HasPrefix(name, "temp.") {
		return nil, fmt.Errorf("fence: %q is a table of one connection alone, and the others would not see its tokens (use a schema that lasts)", name)
	}
	t := &Table{dialect: d}
	switch d {
	case PostgreSQL:
		t.create = "CREATE TABLE IF NOT EXISTS " + name + ` (resource text COLLATE "C" PRIMARY KEY, token bigint NOT NULL)`
		t.check = "INSERT INTO " + name + " AS kept (resource, token) VALUES ($1, $2)"
		t.query = "SELECT token FROM " + name + " WHERE resource = $1"
	case SQLite:
		t.create = "CREATE TABLE IF NOT EXISTS " + name + " (resource TEXT NOT NULL PRIMARY KEY, token INTEGER NOT NULL)"
		t.check = "INSERT INTO " + name + " AS kept (resource, token) VALUES (?, ?)"
		t.query = "SELECT token FROM " + name + " WHERE resource = ?"
	default:
		return nil, fmt.Errorf("fence: no such dialect: %v", d)
	}
	t.check += " ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token >= kept.token"
	return t, nil
}

// Schema returns the statement that makes the table unless it is there, for a migration. PostgreSQL refuses
// it (SQLSTATE 23505 or 42710) to a program that runs it at the very moment at which another creates the table.
func (t *Table) Schema() string { return t.create }

// made returns an error if t is not of NewTable: its statements are empty, and what a driver does with one is its own affair.
func (t *Table) made() error {
	if t == nil || t.check == "" {
		return errors.New("fence: a table that NewTable did not return cannot be used (was the error of NewTable looked at?)")
	}
	return nil
}

// Check returns nil if no token above c.Token has been seen for c.Resource, and remembers it; then no
// other token is accepted until the transaction of q ends. A *StaleError says that the caller has been
// overtaken: roll back. Any other error is the database's, and says nothing about the lock.
//
// q must be a transaction. On its own, Check protects nothing that is written after it, so a *sql.DB is refused; of a
// *sql.Conn it cannot be told whether a transaction has begun.
func (t *Table) Check(ctx context.Context, q Querier, c Claim) error {
	if err := t.made(); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	if _, db := q.(*sql.DB); db {
		return fmt.Errorf("fence %s: check token %d: needs a transaction, not a *sql.DB", c.Resource, c.Token)
	}
	result, err := q.ExecContext(ctx, t.check, c.Resource, c.Token)
	if err != nil {
		return fmt.Errorf("fence %s: check token %d: %w", c.Resource, c.Token, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence %s: check token %d: %w", c.Resource, c.Token, err)
	}
	if n > 0 {
		return nil
	}
	newest, err := t.Newest(ctx, q, c.Resource)
	if err != nil {
		newest = 0 // the refusal stands without it
	}
	return &StaleError{c, newest}
}

// Newest returns the highest token that was committed for a resource, or checked in q; 0 if there was
// none.
func (t *Table) Newest(ctx context.Context, q Querier, resource string) (int64, error) {
	if err := t.made(); err != nil {
		return 0, err
	}
	var newest int64
	err := q.QueryRowContext(ctx, t.query, resource).Scan(&newest)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("fence %s: newest token: %w", resource, err)
	}
	return newest, nil
}

// Do checks c and runs f in one transaction of db, at the database's default isolation level, and
// commits it if f returns nil. An error of the commit leaves in doubt whether it took effect, as ever.
func (t *Table) Do(ctx context.Context, db *sql.DB, c Claim, f func(tx *sql.Tx) error) error {
	if err := t.made(); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fence %s: begin: %w", c.Resource, err)
	}
	defer tx.Rollback() // does nothing after a commit
	if err := t.Check(ctx, tx, c); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fence %s: commit: %w", c.Resource, err)
	}
	return nil
}
