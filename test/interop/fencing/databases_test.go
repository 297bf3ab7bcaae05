package fencing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/fence"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/postgres"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		if err := work(os.Args[1:]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := apache.Require(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// patience bounds what should take no time.
const patience = 2 * time.Minute

// A database is one of a test's own, with the table of the register in it.
type database struct {
	*sql.DB
	driver, dsn string
	fences      *fence.Table
}

const tableName = "fences"

// newTable returns the register as a program would, knowing its driver.
func newTable(driver string) (*fence.Table, error) {
	d := fence.PostgreSQL
	if driver == "sqlite" {
		d = fence.SQLite
	}
	return fence.NewTable(d, tableName)
}

func openDatabase(t *testing.T, driver, dsn string) *database {
	t.Helper()
	fences, err := newTable(driver)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := &database{db, driver, dsn, fences}
	for range 2 { // it may be there
		d.exec(t, fences.Schema())
	}
	return d
}

// sqliteDSN names a database in a file; connections wait for their turn to write.
func sqliteDSN(t *testing.T, mode string) string {
	return "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(" + mode + ")"
}

// A setting is a database with a way to use it.
type setting struct {
	name  string
	open  func(t *testing.T) *database
	level sql.IsolationLevel
}

func settings(t *testing.T) []setting {
	pg := postgres.Start(t)
	openPG := func(t *testing.T) *database {
		admin := openDatabase(t, "pgx", pg)
		name := fmt.Sprintf("t%d", time.Now().UnixNano())
		admin.exec(t, "CREATE DATABASE "+name)
		return openDatabase(t, "pgx", pg+" database="+name)
	}
	openSQLite := func(mode string) func(t *testing.T) *database {
		return func(t *testing.T) *database { return openDatabase(t, "sqlite", sqliteDSN(t, mode)) }
	}
	return []setting{
		{"PostgreSQL/ReadCommitted", openPG, sql.LevelReadCommitted},
		{"PostgreSQL/RepeatableRead", openPG, sql.LevelRepeatableRead},
		{"PostgreSQL/Serializable", openPG, sql.LevelSerializable},
		{"SQLite/Journal", openSQLite("delete"), sql.LevelDefault},
		{"SQLite/WAL", openSQLite("wal"), sql.LevelDefault},
	}
}

// everywhere runs a test in all settings.
func everywhere(t *testing.T, f func(t *testing.T, db *database, level sql.IsolationLevel)) {
	for _, s := range settings(t) {
		t.Run(s.name, func(t *testing.T) { f(t, s.open(t), s.level) })
	}
}

func (d *database) exec(t *testing.T, query string) {
	t.Helper()
	if _, err := d.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func (d *database) begin(t *testing.T, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := d.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// again reports whether a transaction met another one and is to be run once more.
func again(err error) bool {
	const serializationFailure = "40001"
	const busy = 5 // the low byte of SQLITE_BUSY and its relatives
	var pg *pgconn.PgError
	var lite *sqlite.Error
	return errors.As(err, &pg) && pg.Code == serializationFailure || errors.As(err, &lite) && lite.Code()&0xff == busy
}

// transact runs f in a transaction of that level until it has met no other one.
func (d *database) transact(ctx context.Context, level sql.IsolationLevel, f func(tx *sql.Tx) error) error {
	for {
		err := d.once(ctx, level, f)
		if err == nil || !again(err) || ctx.Err() != nil {
			return err
		}
	}
}

func (d *database) once(ctx context.Context, level sql.IsolationLevel, f func(tx *sql.Tx) error) error {
	tx, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
