package ending

import (
	"context"
	"io"
)

// Reader returns a reader of what r reads, from which nothing can be read any more once ctx has ended. The error is then the cause.
func Reader(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(b)
}
