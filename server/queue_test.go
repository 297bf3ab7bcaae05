package server

import (
	"slices"
	"testing"
	"testing/synctest"
)

func TestTheRightToCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		batches := make(chan []*request)
		go func() {
			defer close(batches)
			var worked []*request
			for {
				worked = q.next(worked)
				if len(worked) == 0 {
					return
				}
				batches <- slices.Clone(worked)
			}
		}()
		a, b, c, d := new(request), new(request), new(request), new(request)
		want := func(got []*request, want ...*request) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Fatalf("%d requests to commit, want %d", len(got), len(want))
			}
		}

		want(q.takeInline())
		q.add(a)
		q.add(b)
		first := q.takeInline()
		want(first, a, b)
		q.put(c)
		q.add(d)
		want(q.takeInline()) // the committer has to take them next
		synctest.Wait()
		select {
		case <-batches:
			t.Fatal("two commit at once")
		default:
		}
		q.pass(first)
		synctest.Wait()
		q.add(a) // while the loop is at work
		want(<-batches, c, d)
		want(<-batches, a)
		synctest.Wait()
		q.put(b)
		want(<-batches, b)
		synctest.Wait()
		for range inlineMax + 1 {
			q.add(a)
		}
		many := q.takeInline()
		q.pass(many)
		q.add(b)
		want(q.takeInline()) // there was much to do: the loop shall
		want(<-batches, b)
		synctest.Wait()
		q.add(c)
		last := q.takeInline()
		want(last, c)
		q.pass(last)
		q.add(c) // and the reader that added it has ended without a commit
		q.close()
		want(<-batches, c)
		if q.put(d) {
			t.Error("a closed queue takes requests")
		}
		if _, open := <-batches; open {
			t.Error("the loop goes on")
		}
	})
}
