package lock

import (
	"bytes"
	"testing"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// FuzzNodeData reads anything at all as a contender's data. What was understood stays the same when it is
// written and read again.
func FuzzNodeData(f *testing.F) {
	e := newFairLock(nil, "/l", Options{Label: "nightly"}, &queue.MutexRules)
	for _, data := range [][]byte{nil, e.nodeData(nil), []byte("127.0.0.1"), []byte(queue.RevokeMessage),
		[]byte(`{"host":"a","pid":-1,"under":["/l/_c_0-lock-"],"yields":true}`),
		[]byte(`{"host":"a","since":"2026-01-02T03:04:05.678+14:00"}`), []byte(`{"pid":1e3}`), []byte(`{"under":[null]}`)} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := queue.ParseRecord(data)
		once := r.Encode()
		if twice := queue.ParseRecord(once).Encode(); !bytes.Equal(once, twice) {
			t.Errorf("%q is read as %+v, written as %s, and then as %s", data, r, once, twice)
		}
	})
}
