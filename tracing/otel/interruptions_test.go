package locktracing_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/group"
	locktracing "github.com/lockkeeper/lockkeeper/tracing/otel"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A lost connection, an expired session and an id that another session has taken are spans of what they interrupt; Close is none.
func TestInterruptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracing := locktracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"), locktracing.Options{Paths: true})
		srv, ctx := zktest.New(t, zktest.Options{}), t.Context()
		k, err := client.Keep(ctx, zktest.Servers, client.Options{Dial: srv.Link("a").Dial})
		must(t, err)
		c, err := cache.Open(ctx, k, "/c", cache.Options{})
		must(t, err)
		g, err := group.Open(ctx, k, "/g", group.Options{})
		must(t, err)
		m, err := group.Join(ctx, k, "/g", "one", nil, group.JoinOptions{})
		must(t, err)
		var followers sync.WaitGroup
		followers.Go(func() { tracing.FollowKeeper(ctx, "main", k) })
		followers.Go(func() { tracing.FollowCache(ctx, "config", c) })
		followers.Go(func() { tracing.FollowGroup(ctx, "workers", g) })
		followers.Go(func() { tracing.FollowMember(ctx, "workers", m) })
		synctest.Wait()

		srv.Link("a").Refuse()
		time.Sleep(4 * time.Second)
		srv.Link("a").Heal()
		time.Sleep(time.Minute)
		lost := spans(recorder)
		for _, name := range []string{"session.interruption main", "cache.stale config", "group.stale workers"} {
			if !slices.Contains(lost, name+" Unset") {
				t.Errorf("after a lost connection there is no %q: %q", name, lost)
			}
		}
		for _, s := range recorder.Ended() {
			if took := s.EndTime().Sub(s.StartTime()); s.Name() == "session.interruption" && (took < 4*time.Second || took > 10*time.Second) {
				t.Errorf("%s took %v, and the connection was away for 4 s", s.Name(), took)
			}
		}

		recorder.Reset()
		srv.Link("a").Refuse() // longer than the session timeout: of a state that passes at once a follower may not hear
		srv.Link("a").Expire()
		time.Sleep(20 * time.Second)
		srv.Link("a").Heal()
		time.Sleep(time.Minute)
		expired := spans(recorder)
		for _, name := range []string{"session.interruption main Error expired", "cache.stale config Unset", "group.absence workers Unset"} {
			if !slices.Contains(expired, name) {
				t.Errorf("after an expiry there is no %q: %q", name, expired)
			}
		}

		recorder.Reset()
		ko, err := client.Keep(ctx, zktest.Servers, client.Options{Dial: srv.Link("other").Dial})
		must(t, err)
		other, err := group.Join(ctx, ko, "/g", "one", nil, group.JoinOptions{TakeOver: true})
		must(t, err)
		time.Sleep(time.Minute)
		must(t, other.Close(ctx))
		must(t, ko.Close(ctx))
		time.Sleep(time.Minute)
		var longest time.Duration // the znode may change hands more than once at that moment
		for _, s := range recorder.Ended() {
			if took := s.EndTime().Sub(s.StartTime()); s.Name() == "group.absence" && len(s.Events()) == 1 {
				longest = max(longest, took)
			}
		}
		if longest != time.Minute {
			t.Errorf("after another session had the id for a minute: %q, the longest %v", spans(recorder), longest)
		}

		recorder.Reset()
		must(t, m.Close(ctx))
		must(t, g.Close(ctx))
		must(t, c.Close(ctx))
		must(t, k.Close(ctx))
		followers.Wait()
		if closed := spans(recorder); len(closed) > 0 {
			t.Errorf("Close is no interruption: %q", closed)
		}
	})
}

// A session that is closed while its Keeper goes on is an interruption as well, and what follows later ones goes on.
func TestASessionThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracing := locktracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"), locktracing.Options{})
		srv, ctx := zktest.New(t, zktest.Options{}), t.Context()
		k, err := client.Keep(ctx, zktest.Servers, client.Options{Dial: srv.Link("a").Dial})
		must(t, err)
		c, err := cache.Open(ctx, k, "/c", cache.Options{})
		must(t, err)
		m, err := group.Join(ctx, k, "/g", "one", nil, group.JoinOptions{})
		must(t, err)
		var followers sync.WaitGroup
		followers.Go(func() { tracing.FollowKeeper(ctx, "main", k) })
		followers.Go(func() { tracing.FollowCache(ctx, "config", c) })
		followers.Go(func() { tracing.FollowMember(ctx, "workers", m) })
		synctest.Wait()

		s, err := k.Session(ctx)
		must(t, err)
		srv.Link("a").Refuse() // for a moment
		s.Close(ctx)
		time.Sleep(4 * time.Second)
		srv.Link("a").Heal()
		time.Sleep(time.Minute)
		closed := spans(recorder)
		for _, name := range []string{"session.interruption main Error closed", "cache.stale config Unset", "group.absence workers Unset"} {
			if !slices.Contains(closed, name) {
				t.Errorf("after a session was closed there is no %q: %q", name, closed)
			}
		}

		recorder.Reset()
		srv.Link("a").Refuse() // longer than the session timeout: of a state that passes at once a follower may not hear
		srv.Link("a").Expire()
		time.Sleep(20 * time.Second)
		srv.Link("a").Heal()
		time.Sleep(time.Minute)
		expired := spans(recorder)
		for _, name := range []string{"session.interruption main Error expired", "cache.stale config Unset", "group.absence workers Unset"} {
			if !slices.Contains(expired, name) {
				t.Errorf("after an expiry later there is no %q: %q", name, expired)
			}
		}
		must(t, m.Close(ctx))
		must(t, c.Close(ctx))
		must(t, k.Close(ctx))
		followers.Wait()
	})
}

// A cache that ends by itself is an error, and an ended context ends what follows.
func TestACacheThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracing := locktracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"), locktracing.Options{})
		srv, ctx := zktest.New(t, zktest.Options{}), t.Context()
		k, err := client.Keep(ctx, zktest.Servers, client.Options{Dial: srv.Link("a").Dial})
		must(t, err)
		defer k.Close(context.Background())
		c, err := cache.Open(ctx, k, "/c", cache.Options{NodesMax: 1})
		must(t, err)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var followers sync.WaitGroup
		followers.Go(func() { tracing.FollowKeeper(short, "main", k) })
		followers.Go(func() { tracing.FollowCache(ctx, "config", c) })
		synctest.Wait()
		s := srv.Session(t, "writer")
		_, err = s.Put(ctx, "/c/x", nil, nil)
		must(t, err)
		followers.Wait()
		for _, s := range recorder.Ended() {
			if len(s.Events()) > 0 || s.Status().Description != "ended" {
				t.Errorf("without Options.Paths, %s has %d events and the status %q", s.Name(), len(s.Events()), s.Status().Description)
			}
		}
		if got := spans(recorder); !slices.Equal(got, []string{"cache.stale config Error ended"}) {
			t.Errorf("spans: %q", got)
		}
		must(t, c.Close(ctx))
	})
}

// spans returns name, subject, status and error of the spans that have ended.
func spans(recorder *tracetest.SpanRecorder) (all []string) {
	for _, s := range recorder.Ended() {
		line, kind := s.Name(), ""
		for _, kv := range s.Attributes() {
			if kv.Key == "error.type" {
				kind = " " + kv.Value.AsString()
			} else {
				line += " " + kv.Value.AsString()
			}
		}
		all = append(all, fmt.Sprint(line, " ", s.Status().Code, kind))
	}
	return all
}
