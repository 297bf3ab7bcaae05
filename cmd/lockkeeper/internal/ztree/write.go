package ztree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Existing says what a Writer does with a znode that is there already.
type Existing int

// The ways to treat them.
const (
	Fail Existing = iota
	Skip
	Overwrite // with data and ACL
)

const (
	opsInMulti   = 500
	bytesInMulti = 256 << 10 // servers take 1 MiB, unless they are told otherwise
	multisAhead  = 4
)

// A Writer creates znodes, many at a time, in transactions that have their answers before multisAhead others have been
// sent. It is used by one goroutine. A connection that breaks is no error: what has been applied is found out.
type Writer struct {
	S        *client.Session
	Existing Existing
	Rate     float64        // znodes a second; 0 is no limit
	Progress func(done int) // may be nil

	ops     []client.Op
	created []Record // of ops, as far as they create
	bytes   int
	acks    []sentMulti // in the order in which they were sent

	begun   time.Time
	sent    int
	Done    int      // znodes written
	Skipped int      // there already
	records []Record // of ops, for those modes that look at each
}

type sentMulti struct {
	ops     []client.Op
	created []Record // as long as ops if all create
	pending *client.Pending[[]client.Result]
}

// Create adds a znode. Its parent has to be there, or added before.
func (w *Writer) Create(ctx context.Context, r Record) error {
	if w.Existing != Fail {
		w.records = append(w.records, r)
		w.bytes += len(r.Path) + len(r.Data)
		if len(w.records) < w.opsMax() && w.bytes < bytesInMulti {
			return nil
		}
		return w.flushEach(ctx)
	}
	size := len(r.Path) + len(r.Data)
	if w.bytes+size > bytesInMulti {
		if err := w.flushMulti(ctx); err != nil {
			return err
		}
	}
	w.created = append(w.created, r)
	return w.Add(ctx, client.OpCreate(r.Path, r.Data, zk.Persistent, r.ACL), size)
}

// Add adds an operation of size bytes.
func (w *Writer) Add(ctx context.Context, op client.Op, size int) error {
	if w.bytes+size > bytesInMulti && len(w.ops) > 0 {
		if err := w.flushMulti(ctx); err != nil {
			return err
		}
	}
	w.ops = append(w.ops, op)
	w.bytes += size
	if len(w.ops) < w.opsMax() {
		return nil
	}
	return w.flushMulti(ctx)
}

// Flush sends what has been added, and waits for all answers.
func (w *Writer) Flush(ctx context.Context) error {
	err := w.flushEach(ctx)
	if err == nil {
		err = w.flushMulti(ctx)
	}
	for len(w.acks) > 0 {
		err = graver(err, w.awaitOldest(ctx))
	}
	return err
}

// End is Flush for work that has ended with err, which may be nil, and returns what there is to tell.
func (w *Writer) End(ctx context.Context, err error) error { return graver(err, w.Flush(ctx)) }

// graver returns the first of two errors, unless the second one leaves a doubt about what has been written.
func graver(first, second error) error {
	if first == nil || client.MaybeApplied(second) {
		return second
	}
	return first
}

func (w *Writer) flushMulti(ctx context.Context) error {
	if len(w.ops) == 0 {
		return nil
	}
	if err := w.pace(ctx, len(w.ops)); err != nil {
		return err
	}
	w.send(ctx, w.ops, w.created)
	w.ops, w.created, w.bytes = nil, nil, 0
	if len(w.acks) <= multisAhead {
		return nil
	}
	return w.awaitOldest(ctx)
}

func (w *Writer) send(ctx context.Context, ops []client.Op, created []Record) {
	p := w.S.Pipeline()
	w.acks = append(w.acks, sentMulti{ops, created, p.Multi(ops...)})
	p.Send(ctx)
}

// awaitOldest waits for the oldest answer.
func (w *Writer) awaitOldest(ctx context.Context) error {
	first := w.acks[0]
	_, err := first.pending.Wait(ctx)
	if errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil {
		return w.resume(ctx)
	}
	w.acks = w.acks[1:]
	if err != nil {
		for _, later := range w.acks { // each can have been applied or not
			if _, err := later.pending.Wait(ctx); err == nil {
				w.done(len(later.ops))
			}
		}
		w.acks = nil
		return err
	}
	w.done(len(first.ops))
	return nil
}

func (w *Writer) done(n int) {
	w.Done += n
	if w.Progress != nil {
		w.Progress(w.Done)
	}
}

// resume sends again what a broken connection has not applied.
func (w *Writer) resume(ctx context.Context) error {
	lost := w.acks
	w.acks = nil
	if err := reconnected(ctx, w.S); err != nil {
		return unknown(err)
	}
	if err := w.S.AwaitWrites(ctx); err != nil {
		return unknown(err)
	}
	for _, m := range lost {
		// One that was answered before the connection broke says so at once.
		_, err := m.pending.Wait(ctx)
		if err == nil {
			w.done(len(m.ops))
			continue
		}
		// One that was refused may have wanted what the lost one before it was to create.
		if errors.Is(err, zk.ErrConnectionLoss) {
			applied, err := w.applied(ctx, m)
			if err != nil {
				return unknown(err)
			}
			if applied {
				w.done(len(m.ops))
				continue
			}
		}
		w.send(ctx, m.ops, m.created)
		if err := w.awaitOldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unknown is the error of writes whose answers were lost, when err keeps from finding out whether they were applied.
func unknown(err error) error { return &client.OpError{Op: "write", Err: err, Maybe: true} }

// errNotOnlyCreates says why that cannot be found out.
var errNotOnlyCreates = errors.New("the connection broke, and a transaction leaves no trace of its own (the same command goes on)")

// applied finds out whether a transaction that creates znodes was applied. If so, the first and the last have been
// created by one transaction.
func (w *Writer) applied(ctx context.Context, m sentMulti) (bool, error) {
	if len(m.created) != len(m.ops) {
		return false, errNotOnlyCreates
	}
	first, last := m.created[0], m.created[len(m.created)-1]
	data, st, err := w.S.Get(ctx, first.Path)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	end, there, err := w.S.Exists(ctx, last.Path)
	return there && end.Czxid == st.Czxid && bytes.Equal(data, first.Data), err
}

// flushEach creates the added znodes one by one, because some may be there.
func (w *Writer) flushEach(ctx context.Context) error {
	if len(w.records) == 0 {
		return nil
	}
	if err := w.pace(ctx, len(w.records)); err != nil {
		return err
	}
	records := w.records
	w.records, w.bytes = nil, 0
	for len(records) > 0 {
		p := w.S.Pipeline()
		made := make([]*client.Pending[client.Created], len(records))
		for i, r := range records {
			made[i] = p.Create(r.Path, r.Data, zk.Persistent, r.ACL)
		}
		p.Send(ctx)
		finished := len(records)
		var failed error // the first failure; what was sent behind it is counted all the same
		for i, r := range records {
			_, err := made[i].Wait(ctx)
			if errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil {
				if err := reconnected(ctx, w.S); err != nil {
					return unknown(err)
				}
				finished = i // a create that was applied is found to be there
				break
			}
			switch {
			case err == nil:
				w.done(1)
			case failed != nil:
			case !errors.Is(err, zk.ErrNodeExists):
				failed = err
			case w.Existing == Skip:
				w.Skipped++
			default:
				failed = w.overwrite(ctx, r)
				if failed == nil {
					w.done(1)
				}
			}
		}
		if failed != nil {
			return failed
		}
		records = records[finished:]
	}
	return nil
}

func (w *Writer) overwrite(ctx context.Context, r Record) error {
	if _, err := w.S.Set(ctx, r.Path, r.Data, zk.AnyVersion); err != nil {
		return err
	}
	if r.NoACL {
		return nil
	}
	acl := r.ACL
	if acl == nil {
		acl = zk.OpenACL()
	}
	_, err := w.S.SetACL(ctx, r.Path, acl, zk.AnyVersion)
	return err
}

// opsMax returns how many operations a transaction has at most: with a rate, those of a tenth of a second.
func (w *Writer) opsMax() int {
	if w.Rate <= 0 {
		return opsInMulti
	}
	return int(min(max(w.Rate/10, 1), opsInMulti))
}

// pace waits until n more znodes may be sent.
func (w *Writer) pace(ctx context.Context, n int) error {
	if w.Rate <= 0 {
		return nil
	}
	if w.begun.IsZero() {
		w.begun = time.Now()
	}
	due := w.begun.Add(time.Duration(float64(w.sent) / w.Rate * float64(time.Second)))
	w.sent += n
	wait := time.NewTimer(time.Until(due))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the rate limit: %w", context.Cause(ctx))
	}
}
