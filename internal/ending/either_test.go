package ending_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/ending"
)

func TestEither(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		one, two := errors.New("one"), errors.New("two")
		for _, tt := range []struct{ first, second, want error }{{one, nil, one}, {nil, two, two}, {one, two, one}} {
			ctx, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
			other, endOther := context.WithCancelCause(t.Context())
			either, stop := ending.Either(ctx, other)
			if either.Err() != nil || either.Value(key{}) != "value" {
				t.Errorf("before: %v, with the value %v", either.Err(), either.Value(key{}))
			}
			if tt.first != nil {
				end(tt.first)
				synctest.Wait()
			}
			if tt.second != nil {
				endOther(tt.second)
			}
			<-either.Done()
			stop()
			if cause := context.Cause(either); cause != tt.want {
				t.Errorf("ended by %v, want %v", cause, tt.want)
			}
			end(nil)
			endOther(nil)
		}
		either, stop := ending.Either(t.Context(), t.Context())
		stop()
		if context.Cause(either) != context.Canceled {
			t.Errorf("stopped: %v", context.Cause(either))
		}
	})
}
