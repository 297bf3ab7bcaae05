package fencing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/fence"
)

// A row that only the latest holder of a lock may change. The tokens would be those of lock.Hold.Token.
func Example() {
	dir, err := os.MkdirTemp("", "fence-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fences, err := fence.NewTable(fence.SQLite, "fences")
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range []string{fences.Schema(), "CREATE TABLE report (author TEXT)", "INSERT INTO report VALUES ('nobody')"} {
		if _, err := db.Exec(s); err != nil {
			log.Fatal(err)
		}
	}

	ctx := context.Background()
	write := func(author string, token int64) error {
		return fences.Do(ctx, db, fence.Claim{Resource: "report", Token: token}, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE report SET author = ?", author)
			return err
		})
	}
	fmt.Println("anna:", write("anna", 4294967301))
	fmt.Println("bert:", write("bert", 4294967306))
	err = write("anna", 4294967301) // was asleep
	fmt.Println("anna:", err, errors.Is(err, fence.ErrStale))
	var author string
	if err := db.QueryRow("SELECT author FROM report").Scan(&author); err != nil {
		log.Fatal(err)
	}
	fmt.Println("by", author)
	// Output:
	// anna: <nil>
	// bert: <nil>
	// anna: fence report: token 4294967301 is stale, 4294967306 was seen true
	// by bert
}
