package vfs

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkLayout compares ways to lay out a log: what one write and one Datasync cost when the
// space written to is new, reserved, or holds zeros already. The zeros of "zeroed" are written
// ahead as part of every so-manieth write, and their cost is in the figure. The log of package
// store is reserved and zeroed by 256 KiB; these are the figures behind that choice.
func BenchmarkLayout(b *testing.B) {
	layouts := []struct {
		name      string
		reserve   int64
		zeroAhead int64
	}{
		{"appended", 0, 0},
		{"reserved", 64 << 20, 0},
		{"zeroed64K", 0, 64 << 10},
		{"reserved,zeroed64K", 64 << 20, 64 << 10},
		{"reserved,zeroed256K", 64 << 20, 256 << 10},
		{"reserved,zeroed1M", 64 << 20, 1 << 20},
	}
	for _, layout := range layouts {
		for _, txns := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/%dx200B", layout.name, txns), func(b *testing.B) {
				f, err := OS{}.Create(filepath.Join(b.TempDir(), "log"))
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				record := make([]byte, 200*txns, int64(200*txns)+layout.zeroAhead)
				for i := range record {
					record[i] = byte(i) | 1
				}
				var off, zeroed int64
				for b.Loop() {
					if layout.reserve > 0 && off%layout.reserve < int64(len(record)) {
						if err := f.Preallocate(off + layout.reserve); err != nil {
							b.Fatal(err)
						}
					}
					p := record
					if end := off + int64(len(p)); end > zeroed && layout.zeroAhead > 0 {
						p = p[:int64(len(p))+layout.zeroAhead]
						zeroed = off + int64(len(p))
					}
					if _, err := f.WriteAt(p, off); err != nil {
						b.Fatal(err)
					}
					if err := f.Datasync(); err != nil {
						b.Fatal(err)
					}
					off += int64(len(record))
				}
			})
		}
	}
}
