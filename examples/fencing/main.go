// Command fencing adds to a balance that is kept in a database. A process that was paused while it held the
// lock, and goes on when the lock has passed to another, is refused by the database: the comparison of
// tokens and the write are one transaction.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	_ "modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/fence"
	"github.com/lockkeeper/lockkeeper/lock"
)

const account = "/examples/fencing/account-17" // the lock's path is also the resource's name

const schema = `
CREATE TABLE IF NOT EXISTS balance (amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS fences (resource TEXT PRIMARY KEY, token BIGINT NOT NULL);
INSERT INTO balance SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM balance);`

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: fencing DATABASE AMOUNT")
	}
	amount, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal("fencing: ", err)
	}
	if err := run(context.Background(), os.Args[1], amount); err != nil {
		log.Fatal("fencing: ", err)
	}
}

func run(ctx context.Context, file string, amount int) error {
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	fences, err := fence.NewTable(fence.SQLite, "fences")
	if err != nil {
		return err
	}
	s, err := client.Open(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	m, err := lock.NewMutex(s, account, lock.Options{Label: "balance"})
	if err != nil {
		return err
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return hold.Do(ctx, func(ctx context.Context) error {
		if _, err := db.ExecContext(ctx, schema); err != nil {
			return err
		}
		balance, err := add(ctx, db, fences, hold.Token(), amount)
		if errors.Is(err, fence.ErrStale) {
			return fmt.Errorf("came too late, nothing was written: %w", err)
		}
		if err != nil {
			return err
		}
		fmt.Println("balance", balance)
		return nil
	})
}

// add compares the token and writes, in one transaction.
func add(ctx context.Context, db *sql.DB, fences *fence.Table, token int64, amount int) (balance int, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // does nothing once committed
	if err := fences.Check(ctx, tx, fence.Claim{Resource: account, Token: token}); err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, `UPDATE balance SET amount = amount + ? RETURNING amount`, amount).Scan(&balance); err != nil {
		return 0, err
	}
	return balance, tx.Commit()
}
