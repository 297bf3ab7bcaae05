package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
)

// unheard returns err and, if s has no connection, why.
func unheard(s *client.Session, err error) error {
	st, _ := s.State()
	if st.Phase != client.Disconnected {
		return err
	}
	return ending.CutOff(err, st.Cause)
}

// endOf returns why ctx has ended, while an attempt waited, and why nothing was heard if there is no connection.
func endOf(ctx context.Context, s *client.Session) error { return unheard(s, ending.Of(ctx)) }
