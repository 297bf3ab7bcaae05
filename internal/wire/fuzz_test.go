package wire

import (
	"bytes"
	"reflect"
	"runtime"
	"testing"
)

// requestOf returns the record that belongs to a request type, nil if there is none.
func requestOf(op Op) Record {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return new(CreateRequest)
	case OpCreateTTL:
		return new(CreateTTLRequest)
	case OpDelete, OpCheck:
		return new(VersionRequest)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		return new(WatchRequest)
	case OpGetACL, OpSync, OpAllChildrenCount:
		return new(PathRecord)
	case OpGetEphemerals:
		return new(PrefixRequest)
	case OpSetData:
		return new(SetDataRequest)
	case OpSetACL:
		return new(SetACLRequest)
	case OpCheckWatches, OpRemoveWatches:
		return new(WatchKindRequest)
	case OpAddWatch:
		return new(AddWatchRequest)
	case OpAuth:
		return new(AuthRequest)
	case OpSetWatches, OpSetWatches2:
		return new(SetWatchesRequest)
	case OpReconfig:
		return new(ReconfigRequest)
	case OpSASL:
		return new(TokenRecord)
	case OpMulti, OpMultiRead:
		return new(MultiRequest)
	}
	return nil
}

// responseOf returns the record that answers a request type.
func responseOf(op Op) Record {
	switch op {
	case OpCreate, OpSync:
		return new(PathRecord)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return new(CreateResponse)
	case OpExists, OpSetData, OpSetACL:
		return new(StatResponse)
	case OpGetData:
		return new(DataResponse)
	case OpGetACL:
		return new(ACLResponse)
	case OpGetChildren, OpGetEphemerals:
		return new(StringsResponse)
	case OpGetChildren2:
		return new(ChildrenResponse)
	case OpAllChildrenCount, OpAddWatch:
		return new(Int32Response)
	case OpSASL:
		return new(TokenRecord)
	case OpMulti, OpMultiRead:
		return new(MultiResponse)
	case OpWhoAmI:
		return new(WhoAmIResponse)
	}
	return nil
}

// allocFactor is how many bytes a record may take for one of its encoding: strings and results are larger
// in memory than on the wire, and slices grow by doubling.
const allocFactor = 64

// stable decodes b into r, encodes it, and decodes that: what was understood must not change. (The bytes
// may: any byte but 0 is true, and some null lists read as empty ones.)
func stable(t *testing.T, b []byte, r Record) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Unmarshal(b, r)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(64<<10+allocFactor*len(b)) {
		t.Fatalf("%T: %d bytes allocated for %d", r, got, len(b))
	}
	if err != nil {
		return
	}
	once := r.AppendTo(nil)
	again := fresh(r)
	if err := Unmarshal(once, again); err != nil {
		t.Fatalf("%T: %x was decoded to %+v, encoded to %x, and cannot be decoded: %v", r, b, r, once, err)
	}
	if twice := again.AppendTo(nil); !bytes.Equal(once, twice) {
		t.Fatalf("%T: encoded to %x, then to %x", r, once, twice)
	}
}

func sameType(a, b Record) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

func FuzzRequest(f *testing.F) {
	for _, g := range readGoldens(f) {
		if g.kind == "request" {
			f.Add(int32(g.op), g.frame[8:])
		}
	}
	for _, r := range records {
		for op := Op(-11); op < 110; op++ {
			if q := requestOf(op); q != nil && sameType(q, r) {
				f.Add(int32(op), r.AppendTo(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, op int32, b []byte) {
		if r := requestOf(Op(op)); r != nil {
			stable(t, b, r)
		}
		stable(t, b, new(RequestHeader))
	})
}

func FuzzResponse(f *testing.F) {
	for _, g := range readGoldens(f) {
		if g.kind == "response" {
			f.Add(int32(g.op), g.frame[16:])
		}
	}
	for _, r := range records {
		for op := Op(-11); op < 110; op++ {
			if q := responseOf(op); q != nil && sameType(q, r) {
				f.Add(int32(op), r.AppendTo(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, op int32, b []byte) {
		if r := responseOf(Op(op)); r != nil {
			stable(t, b, r)
		}
		stable(t, b, new(ReplyHeader))
		stable(t, b, new(WatcherEvent))
	})
}

func FuzzHandshake(f *testing.F) {
	for _, r := range records {
		switch r.(type) {
		case *ConnectRequest, *ConnectResponse:
			f.Add(r.AppendTo(nil))
		}
	}
	for _, g := range readGoldens(f) {
		if g.kind == "handshake" {
			f.Add(g.frame)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		stable(t, b, new(ConnectRequest))
		stable(t, b, new(ConnectResponse))
		if frame, err := ReadFrame(bytes.NewReader(b), nil, 1<<20); err == nil && len(frame) > len(b) {
			t.Fatalf("a frame of %d bytes out of %d", len(frame), len(b))
		}
	})
}
