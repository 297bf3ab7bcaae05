// Command migrate brings a database to its newest form. Every instance of a service runs it when it starts;
// one does the work, the others wait and find it done.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"time"

	_ "modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

var migrations = []string{
	`CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL)`,
	`ALTER TABLE customers ADD COLUMN email TEXT`,
	`CREATE UNIQUE INDEX customers_by_email ON customers (email)`,
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: migrate DATABASE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a start must not hang
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		log.Fatal("migrate: ", err)
	}
}

func run(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	s, err := client.Open(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	m, err := lock.NewMutex(s, "/examples/migrate", lock.Options{Label: "migration of customers"})
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context) error { return migrate(ctx, db) })
}

// migrate does what has not been done. Each step and the number of the version are one transaction, so
// an interrupted migration leaves nothing half done.
func migrate(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	for ; version < len(migrations); version++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, migrations[version])
		if err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, version+1))
		}
		if err != nil {
			tx.Rollback()
			return fmt.Errorf("step %d: %w", version+1, err)
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("step %d: %w", version+1, err)
		}
		fmt.Println("did step", version+1)
	}
	fmt.Println("version", version)
	return nil
}
