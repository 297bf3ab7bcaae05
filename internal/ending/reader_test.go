package ending_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/ending"
)

func TestReader(t *testing.T) {
	enough := errors.New("enough")
	ctx, end := context.WithCancelCause(t.Context())
	r := ending.Reader(ctx, strings.NewReader("abc"))
	if b, err := io.ReadAll(io.LimitReader(r, 1)); string(b) != "a" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
	end(enough)
	if b, err := io.ReadAll(r); len(b) > 0 || err != enough {
		t.Errorf("after the end: read %q, %v", b, err)
	}
}
