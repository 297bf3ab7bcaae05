package ending_test

import (
	"errors"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/ending"
)

func TestJoin(t *testing.T) {
	one, other := errors.New("one"), errors.New("other")
	if err := ending.Join(nil, nil); err != nil {
		t.Errorf("of no errors: %v", err)
	}
	if err := ending.Join(nil, one); err != one {
		t.Errorf("of one error: %v", err)
	}
	err := ending.Join(one, nil, other)
	if err.Error() != "one; other" || !errors.Is(err, one) || !errors.Is(err, other) {
		t.Errorf("of two errors: %v", err)
	}
}
