package locktracing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockkeeper/lockkeeper/lock"
	locktracing "github.com/lockkeeper/lockkeeper/tracing/otel"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Without Options.Paths a span does not name the lock or what holds it, not in the text of an error either.
func TestSpansWithoutPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracing := locktracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"), locktracing.Options{})
		srv := zktest.New(t, zktest.Options{})
		ours, theirs := srv.Session(t, "ours"), srv.Session(t, "theirs")
		a, err := lock.NewMutex(ours, "/customer", lock.Options{Hooks: tracing.Hooks()})
		must(t, err)
		b, err := lock.NewMutex(theirs, "/customer", lock.Options{Label: "alice"})
		must(t, err)
		held, err := b.Lock(t.Context())
		must(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Lock(short); err == nil {
			t.Fatal("granted although it is held")
		}
		must(t, held.Release(t.Context()))
		h, err := a.Lock(t.Context())
		must(t, err)
		must(t, theirs.Delete(t.Context(), h.Node(), zk.AnyVersion))
		<-h.Done()
		synctest.Wait()
		var got []string
		for _, span := range recorder.Ended() {
			if span.Status().Code == codes.Error {
				got = append(got, span.Name()+" "+span.Status().Description)
			}
		}
		if want := []string{"lock.acquire timeout", "lock.hold node-deleted"}; !slices.Equal(got, want) {
			t.Errorf("failed spans: %q, want %q", got, want)
		}
	})
}

// Each request is a span, and each hold is one, both beside the work in the caller's span.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
		tracing := locktracing.New(tracer, locktracing.Options{Paths: true})
		srv := zktest.New(t, zktest.Options{})
		ours, theirs := srv.Session(t, "ours"), srv.Session(t, "theirs")
		a, err := lock.NewMutex(ours, "/l", lock.Options{Hooks: tracing.Hooks()})
		must(t, err)
		b, err := lock.NewMutex(theirs, "/l", lock.Options{})
		must(t, err)
		ctx, caller := tracer.Start(t.Context(), "caller")

		other, err := b.Lock(ctx)
		must(t, err)
		if _, err := a.TryLock(ctx); !errors.Is(err, lock.ErrBusy) {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := a.Lock(short); err == nil {
			t.Fatal("granted although it is held")
		}
		time.Sleep(time.Second) // the place in line is given up in the background
		time.AfterFunc(2*time.Second, func() { other.Release(context.Background()) })
		must(t, a.Do(ctx, func(ctx context.Context) error {
			_, work := tracer.Start(ctx, "work")
			time.Sleep(3 * time.Second)
			work.End()
			return nil
		}))
		h, err := a.Lock(ctx)
		must(t, err)
		time.Sleep(time.Second)
		must(t, theirs.Delete(ctx, h.Node(), zk.AnyVersion))
		<-h.Done()
		synctest.Wait()
		caller.End()

		var got []string
		for _, s := range recorder.Ended() {
			line := fmt.Sprint(s.Name(), " ", s.EndTime().Sub(s.StartTime()), " ", s.Status().Code)
			for _, kv := range s.Attributes() {
				if kv.Key == "error.type" || kv.Key == "lockkeeper.lock.path" || kv.Key == "lockkeeper.lock.ahead" {
					line += fmt.Sprint(" ", kv.Value.String())
				}
			}
			for _, e := range s.Events() {
				line += " " + e.Name
			}
			if s.Name() != "caller" && s.Parent().SpanID() != caller.SpanContext().SpanID() {
				t.Errorf("%s is no child of the caller's span", s.Name())
			}
			got = append(got, line)
		}
		want := []string{
			"lock.acquire 0s Unset /l busy",
			"lock.acquire 1s Error /l 1 timeout lock.waiting",
			"lock.acquire 2s Unset /l 1 lock.waiting",
			"work 3s Unset",
			"lock.hold 3s Unset /l",
			"lock.acquire 0s Unset /l",
			"lock.hold 1s Error /l node-deleted",
			"caller 8s Unset",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// Several locks at once, and several permits, have a span each; no span stays open.
func TestSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracing := locktracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"), locktracing.Options{})
		srv, ctx := zktest.New(t, zktest.Options{}), t.Context()
		s := srv.Session(t, "s")
		opt := lock.Options{Hooks: tracing.Hooks()}
		x, err := lock.NewMutex(s, "/x", opt)
		must(t, err)
		y, err := lock.NewMutex(s, "/y", opt)
		must(t, err)
		sem, err := lock.NewSemaphore(s, "/sem", 3, opt)
		must(t, err)
		all, err := lock.NewAll(x, y)
		must(t, err)
		both, err := all.Lock(ctx)
		must(t, err)
		permits, err := sem.AcquireN(ctx, 3)
		must(t, err)
		must(t, both.Release(ctx))
		must(t, permits.Release(ctx))
		h, err := y.Lock(ctx)
		must(t, err)
		if _, err := all.TryLock(ctx); !errors.Is(err, lock.ErrBusy) {
			t.Fatal(err)
		}
		must(t, h.Release(ctx))
		count := map[string]int{}
		for _, s := range recorder.Ended() {
			count[s.Name()]++
		}
		if started := len(recorder.Started()); started != len(recorder.Ended()) {
			t.Errorf("%d spans began and %d ended", started, len(recorder.Ended()))
		}
		if count["lock.acquire"] != 6 || count["lock.hold"] < 6 {
			t.Errorf("spans: %v", count)
		}
	})
}

// Without a tracer, spans are those of the program's global provider.
func TestNoTracer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)))
		srv := zktest.New(t, zktest.Options{})
		m, err := lock.NewMutex(srv.Session(t, "s"), "/l", lock.Options{Hooks: locktracing.New(nil, locktracing.Options{}).Hooks()})
		must(t, err)
		must(t, m.Do(t.Context(), func(context.Context) error { return nil }))
		if n := len(recorder.Ended()); n != 2 {
			t.Errorf("%d spans, want lock.acquire and lock.hold", n)
		}
	})
}
