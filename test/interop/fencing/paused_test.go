package fencing

import (
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/postgres"
)

func (d *database) want(t *testing.T, value string) {
	t.Helper()
	var v string
	if err := d.QueryRowContext(t.Context(), "SELECT value FROM protected").Scan(&v); err != nil {
		t.Fatal(err)
	}
	if v != value {
		t.Errorf("the database has %q, want %q", v, value)
	}
}

// F19, end to end: a process that has the lock, and has looked, is frozen until its session has expired.
// Another one gets the lock and writes. The first goes on where it was and writes, too late.
func TestF19_ALateWriteIsRefused(t *testing.T) {
	zk := apache.Start(t, apache.Options{})
	for _, s := range settings(t) {
		if s.name != "PostgreSQL/ReadCommitted" && s.name != "SQLite/WAL" {
			continue // a program uses the level that its database has by default
		}
		t.Run(s.name, func(t *testing.T) {
			db := s.open(t)
			db.exec(t, "CREATE TABLE protected (value text NOT NULL)")
			db.exec(t, "INSERT INTO protected VALUES ('nothing')")
			a, b := startWorker(t, zk.Addr(), db), startWorker(t, zk.Addr(), db)

			first := a.hold()
			a.expect("write early", "written")
			db.want(t, "early")
			a.Freeze()
			if second := b.hold(); second <= first {
				t.Fatalf("token %d after %d", second, first)
			}
			a.Send("write late") // it will find this when it goes on
			b.expect("write newer", "written")
			a.Thaw()
			if answer := a.Answer(); answer != "stale" {
				t.Errorf("the late write is answered with %q, want that it is stale", answer)
			}
			db.want(t, "newer")
			b.expect("write newest", "written")
		})
	}
}

// A process that is frozen within its transaction keeps the next holder waiting for the row, until the
// database ends the transaction. Then it cannot commit.
func TestF19_PausedInATransaction(t *testing.T) {
	zk := apache.Start(t, apache.Options{})
	db := openDatabase(t, "pgx", postgres.Start(t)+" options='-c idle_in_transaction_session_timeout=8s'") // longer than sessionTimeout
	db.exec(t, "CREATE TABLE protected (value text NOT NULL)")
	db.exec(t, "INSERT INTO protected VALUES ('nothing')")
	a, b := startWorker(t, zk.Addr(), db), startWorker(t, zk.Addr(), db)

	a.hold()
	a.expect("begin late", "begun")
	a.Freeze()
	b.hold()
	b.expect("write newer", "written")
	a.Thaw()
	a.Send("commit")
	if answer := a.Answer(); !strings.HasPrefix(answer, "error") {
		t.Errorf("the late commit is answered with %q, want an error", answer)
	}
	db.want(t, "newer")
}
