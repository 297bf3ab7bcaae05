package fencing

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/fence"
)

// An older token is refused, whatever was committed before, and by name.
func TestTableRefusesOlderTokens(t *testing.T) {
	everywhere(t, func(t *testing.T, db *database, level sql.IsolationLevel) {
		for _, tt := range []struct {
			resource      string
			token, newest int64
			rollback      bool
		}{
			{"a", 5, 5, false},
			{"a", 5, 5, false}, // the same holder
			{"a", 4, 5, false},
			{"a", 8, 5, true}, // not committed: never seen
			{"a", 7, 7, false},
			{"a", 6, 7, false},
			{"A", 1, 1, false}, // resources have nothing to do with each other
			{"größe", 1 << 62, 1 << 62, false},
			{"größe", 1<<62 - 1, 1 << 62, false},
		} {
			tx := db.begin(t, level)
			err := db.fences.Check(t.Context(), tx, fence.Claim{Resource: tt.resource, Token: tt.token})
			var stale *fence.StaleError
			if refused := tt.token < tt.newest; refused != errors.As(err, &stale) || !refused && err != nil {
				t.Fatalf("%s with %d: %v, want refused %v", tt.resource, tt.token, err, refused)
			} else if refused && stale.Newest != tt.newest {
				t.Errorf("%s with %d: %v, want newest %d", tt.resource, tt.token, err, tt.newest)
			}
			if tt.rollback {
				err = tx.Rollback()
			} else {
				err = tx.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := db.fences.Newest(t.Context(), db, tt.resource); n != tt.newest || err != nil {
				t.Errorf("newest of %s: %d, %v; want %d", tt.resource, n, err, tt.newest)
			}
		}
	})
}

// What is protected and the token are committed together, or neither is.
func TestTableDo(t *testing.T) {
	everywhere(t, func(t *testing.T, db *database, _ sql.IsolationLevel) {
		db.exec(t, "CREATE TABLE protected (value bigint NOT NULL)")
		db.exec(t, "INSERT INTO protected VALUES (0)")
		write := func(token, value int64, then error) error {
			return db.fences.Do(t.Context(), db.DB, fence.Claim{Resource: "a", Token: token}, func(tx *sql.Tx) error {
				if _, err := tx.ExecContext(t.Context(), "UPDATE protected SET value = $1", value); err != nil {
					return err
				}
				return then
			})
		}
		want := func(value, newest int64) {
			t.Helper()
			var v int64
			if err := db.QueryRowContext(t.Context(), "SELECT value FROM protected").Scan(&v); err != nil {
				t.Fatal(err)
			}
			if n, err := db.fences.Newest(t.Context(), db, "a"); v != value || n != newest || err != nil {
				t.Errorf("value %d, newest token %d (%v); want %d and %d", v, n, err, value, newest)
			}
		}
		if err := write(2, 10, nil); err != nil {
			t.Fatal(err)
		}
		want(10, 2)
		if err := write(1, 11, nil); !errors.Is(err, fence.ErrStale) {
			t.Errorf("an old token: %v", err)
		}
		want(10, 2)
		broken := errors.New("broken")
		if err := write(3, 12, broken); err != broken {
			t.Errorf("work that fails: %v", err)
		}
		want(10, 2)
		if err := write(2, 13, nil); err != nil {
			t.Errorf("the same holder again: %v", err)
		}
		want(13, 2)
		if err := write(0, 14, nil); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("token 0: %v", err)
		}
	})
}

// A transaction whose check has passed and that is not over keeps the next holder out until it is: what
// it then commits happened before.
func TestTableNewerWaitsForOlder(t *testing.T) {
	everywhere(t, func(t *testing.T, db *database, level sql.IsolationLevel) {
		db.exec(t, "CREATE TABLE protected (token bigint NOT NULL)")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		write := func(tx *sql.Tx, token int64) error {
			if err := db.fences.Check(ctx, tx, fence.Claim{Resource: "a", Token: token}); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO protected VALUES ($1)", token)
			return err
		}
		old := db.begin(t, level)
		if err := write(old, 1); err != nil {
			t.Fatal(err)
		}
		newer := make(chan error, 1)
		go func() {
			newer <- db.transact(ctx, level, func(tx *sql.Tx) error { return write(tx, 2) })
		}()
		select {
		case err := <-newer:
			t.Fatalf("the newer one did not wait: %v", err)
		case <-time.After(300 * time.Millisecond): // it had time to get to the row
		}
		if err := old.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-newer; err != nil {
			t.Fatal(err)
		}
		err := db.transact(ctx, level, func(tx *sql.Tx) error { return write(tx, 1) })
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("the older one again: %v, want it refused", err)
		}
	})
}

// A connection on which the transaction was begun by hand will do, too.
func TestTableOnAConnection(t *testing.T) {
	db := openDatabase(t, "sqlite", sqliteDSN(t, "wal"))
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := db.fences.Check(t.Context(), c, fence.Claim{Resource: "a", Token: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if n, err := db.fences.Newest(t.Context(), db, "a"); n != 3 || err != nil {
		t.Errorf("newest: %d, %v; want 3", n, err)
	}
}

// Many writers, which are granted tokens now and then and go on using the one that they have, add one to a
// number that they have read. The model is the history that the database keeps: no step is lost, tokens
// do not shrink from step to step, and a writer that was refused had been overtaken.
func TestTableManyWriters(t *testing.T) {
	const writers, rounds = 12, 25
	everywhere(t, func(t *testing.T, db *database, level sql.IsolationLevel) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		db.SetMaxOpenConns(writers)
		db.exec(t, "CREATE TABLE history (step bigint NOT NULL, token bigint NOT NULL)")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		step := func(tx *sql.Tx, token int64) error {
			if err := db.fences.Check(ctx, tx, fence.Claim{Resource: "a", Token: token}); err != nil {
				return err
			}
			var last int64
			if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(step), 0) FROM history").Scan(&last); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO history VALUES ($1, $2)", last+1, token)
			return err
		}
		var mu sync.Mutex
		accepted := map[int64]int{} // writes, by token
		var granted atomic.Int64
		var wg sync.WaitGroup
		for w := range writers {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			wg.Go(func() {
				var token int64
				for range rounds {
					if token == 0 || rng.IntN(8) == 0 {
						token = granted.Add(1)
					}
					err := db.transact(ctx, level, func(tx *sql.Tx) error { return step(tx, token) })
					var stale *fence.StaleError
					switch {
					case err == nil:
						mu.Lock()
						accepted[token]++
						mu.Unlock()
					case errors.As(err, &stale) && stale.Newest > token:
						token = 0
					default:
						t.Errorf("token %d: %v", token, err)
					}
				}
			})
		}
		wg.Wait()
		checkHistory(t, db, accepted)
	})
}

func checkHistory(t *testing.T, db *database, accepted map[int64]int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT step, token FROM history ORDER BY step")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var steps, highest int64
	kept := map[int64]int{}
	for rows.Next() {
		var step, token int64
		if err := rows.Scan(&step, &token); err != nil {
			t.Fatal(err)
		}
		steps++
		if step != steps {
			t.Fatalf("step %d is the %dth: an update is lost", step, steps)
		}
		if token < highest {
			t.Errorf("step %d has token %d, after %d", step, token, highest)
		}
		highest = max(highest, token)
		kept[token]++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for token, n := range accepted {
		if kept[token] != n {
			t.Errorf("%d writes with token %d were accepted, %d are there", n, token, kept[token])
		}
	}
	t.Logf("%d steps, highest token %d", steps, highest)
	if len(kept) < 2 {
		t.Errorf("only %d tokens were accepted: nothing was shown", len(kept))
	}
}
