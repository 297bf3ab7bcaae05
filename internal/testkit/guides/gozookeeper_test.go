package guides

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func open(ctx context.Context, servers string) (*client.Session, error) {
	return client.Open(ctx, servers, client.Options{SessionTimeout: 10 * time.Second})
}

func report(ctx context.Context, s *client.Session, work func(context.Context) error) error {
	m, err := lock.NewMutex(s, "/locks/report", lock.Options{Label: "report"})
	if err != nil {
		return err
	}
	return m.Do(ctx, work) // work's context ends when the lock is lost
}

func reportByHand(ctx context.Context, m *lock.Mutex, steps []func(token int64) error) (err error) {
	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	h, err := m.Lock(waiting) // waiting bounds the wait, not the hold
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Release(ctx)) }()
	for _, step := range steps {
		if err := h.Cause(); err != nil {
			return err // lost, and why
		}
		if err := step(h.Token()); err != nil {
			return err
		}
	}
	return nil
}

func increment(ctx context.Context, s *client.Session) error {
	_, err := s.Update(ctx, "/counter", func(old []byte) ([]byte, error) { // again, if another contender was faster
		n, err := strconv.Atoi(string(old))
		return []byte(strconv.Itoa(n + 1)), err
	})
	return err // client.MaybeApplied(err): written or not
}

func follow(ctx context.Context, s *client.Session, changed func([]byte)) error {
	for {
		data, _, w, err := s.WatchGet(ctx, "/config")
		if err != nil {
			return err
		}
		changed(data)
		select {
		case <-w.Done():
		case <-ctx.Done():
			w.Cancel()
			return context.Cause(ctx)
		}
	}
}

// session opens a session over a socket, as readers of the guides do.
func session(t *testing.T) (s *client.Session, servers string) {
	t.Helper()
	servers = zktest.New(t, zktest.Options{}).Addr()
	s, err := open(t.Context(), servers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s, servers
}

// must ends the test if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mutex(t *testing.T, s *client.Session, path string) *lock.Mutex {
	t.Helper()
	m, err := lock.NewMutex(s, path, lock.Options{})
	must(t, err)
	return m
}

func TestReport(t *testing.T) {
	s, _ := session(t)
	held := false
	must(t, report(t.Context(), s, func(ctx context.Context) error {
		_, err := mutex(t, s, "/locks/report").TryLock(context.Background())
		held = errors.Is(err, lock.ErrBusy)
		return ctx.Err()
	}))
	if !held {
		t.Error("work ran without the lock")
	}
}

func TestReportByHand(t *testing.T) {
	s, _ := session(t)
	m := mutex(t, s, "/locks/report")
	var tokens []int64
	step := func(token int64) error {
		tokens = append(tokens, token)
		return nil
	}
	must(t, reportByHand(t.Context(), m, []func(int64) error{step, step}))
	must(t, reportByHand(t.Context(), m, []func(int64) error{step}))
	if len(tokens) != 3 || tokens[0] != tokens[1] || tokens[2] <= tokens[1] {
		t.Errorf("tokens %d, want two equal ones and a higher one", tokens)
	}
	breakIt := func(int64) error {
		line, err := inspect.Contenders(t.Context(), s, m.Path())
		must(t, err)
		must(t, s.Delete(t.Context(), line[0].Node, -1))
		return nil
	}
	left := 30_000
	wait := func(int64) error { // for the news, which ends the work before its next step
		left--
		time.Sleep(time.Millisecond)
		return nil
	}
	steps := append([]func(int64) error{breakIt}, slices.Repeat([]func(int64) error{wait}, left)...)
	if err := reportByHand(t.Context(), m, steps); !errors.Is(err, lock.ErrNodeDeleted) || left == 0 {
		t.Errorf("with the holder's node deleted: %v, want lock.ErrNodeDeleted; %d steps were not made", err, left)
	}
}

func TestIncrement(t *testing.T) {
	s, _ := session(t)
	_, err := s.Create(t.Context(), "/counter", []byte("41"), zk.Persistent, nil)
	must(t, err)
	must(t, increment(t.Context(), s))
	data, _, err := s.Get(t.Context(), "/counter")
	must(t, err)
	if string(data) != "42" {
		t.Errorf("the counter is %s, want 42", data)
	}
}

func TestFollow(t *testing.T) {
	s, _ := session(t)
	_, err := s.Create(t.Context(), "/config", []byte("a"), zk.Persistent, nil)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var seen []string
	err = follow(ctx, s, func(data []byte) {
		seen = append(seen, string(data))
		if len(seen) == 2 {
			cancel()
			return
		}
		_, err := s.Set(t.Context(), "/config", []byte("b"), -1)
		must(t, err)
	})
	if want := []string{"a", "b"}; !errors.Is(err, context.Canceled) || !slices.Equal(seen, want) {
		t.Errorf("follow = %v after %q, want the end of the context after %q", err, seen, want)
	}
}
