package ztree

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
)

// Exports of other programs are read whole, so a few kilobytes must not unpack to all memory there is. Our own are read by the line.
func TestExportsThatUnpackToMore(t *testing.T) {
	pack := func(text string) *bytes.Buffer {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		fmt.Fprint(w, text)
		w.Close()
		return &packed
	}
	const limit = 1 << 20
	foreign := func(bytes int) string { return `{"/a":{"content":"` + strings.Repeat("AAAA", bytes/4) + `"}}` }
	for bytes, refused := range map[int]bool{limit / 2: false, 2 * limit: true} {
		seen := 0
		_, err := readExport(pack(foreign(bytes)), limit, func(Record) error { seen++; return nil })
		if refused && (err == nil || !strings.Contains(err.Error(), "is not read") || seen > 0) || !refused && (err != nil || seen != 1) {
			t.Errorf("%d bytes: %v, after %d znodes", bytes, err, seen)
		}
	}
	var own bytes.Buffer
	e, err := NewExporter(&own, "/")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if err := e.Add(Record{Path: fmt.Sprintf("/n%d", i), Data: make([]byte, limit/20)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.End(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	if _, err := readExport(pack(own.String()), limit, func(Record) error { seen++; return nil }); err != nil || seen != 40 {
		t.Errorf("an export of ours with %d bytes: %v, after %d znodes", own.Len(), err, seen)
	}
}
