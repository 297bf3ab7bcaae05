package wire

import (
	"errors"

	"github.com/lockkeeper/lockkeeper/zk"
)

var errNullList = errors.New("null list where one is required")

// A CreateResponse answers OpCreate2, OpCreateContainer and OpCreateTTL.
type CreateResponse struct {
	Path string // with the counter, if the mode was sequential
	Stat zk.Stat
}

// AppendTo appends the record.
func (r *CreateResponse) AppendTo(b []byte) []byte {
	return AppendStat(AppendString(b, r.Path), &r.Stat)
}

// DecodeFrom reads the record.
func (r *CreateResponse) DecodeFrom(d *Decoder) { r.Path, r.Stat = d.String(), d.Stat() }

// A StatResponse answers OpExists, OpSetData and OpSetACL.
type StatResponse struct{ Stat zk.Stat }

// AppendTo appends the record.
func (r *StatResponse) AppendTo(b []byte) []byte { return AppendStat(b, &r.Stat) }

// DecodeFrom reads the record.
func (r *StatResponse) DecodeFrom(d *Decoder) { r.Stat = d.Stat() }

// A DataResponse answers OpGetData.
type DataResponse struct {
	Data []byte
	Stat zk.Stat
}

// AppendTo appends the record.
func (r *DataResponse) AppendTo(b []byte) []byte { return AppendStat(AppendBuffer(b, r.Data), &r.Stat) }

// DecodeFrom reads the record.
func (r *DataResponse) DecodeFrom(d *Decoder) { r.Data, r.Stat = d.Buffer(), d.Stat() }

// An ACLResponse answers OpGetACL.
type ACLResponse struct {
	ACL  []zk.ACL
	Stat zk.Stat
}

// AppendTo appends the record.
func (r *ACLResponse) AppendTo(b []byte) []byte { return AppendStat(AppendACL(b, r.ACL), &r.Stat) }

// DecodeFrom reads the record.
func (r *ACLResponse) DecodeFrom(d *Decoder) { r.ACL, r.Stat = d.ACL(), d.Stat() }

// A ChildrenResponse answers OpGetChildren2.
type ChildrenResponse struct {
	Children []string // in no particular order
	Stat     zk.Stat
}

// AppendTo appends the record.
func (r *ChildrenResponse) AppendTo(b []byte) []byte {
	return AppendStat(AppendStrings(b, r.Children), &r.Stat)
}

// DecodeFrom reads the record.
func (r *ChildrenResponse) DecodeFrom(d *Decoder) { r.Children, r.Stat = d.Strings(), d.Stat() }

// A StringsResponse answers OpGetChildren and OpGetEphemerals.
type StringsResponse struct{ Strings []string }

// AppendTo appends the record.
func (r *StringsResponse) AppendTo(b []byte) []byte { return AppendStrings(b, r.Strings) }

// DecodeFrom reads the record.
func (r *StringsResponse) DecodeFrom(d *Decoder) { r.Strings = d.Strings() }

// An Int32Response answers OpAllChildrenCount and OpAddWatch.
type Int32Response struct{ Value int32 }

// AppendTo appends the record.
func (r *Int32Response) AppendTo(b []byte) []byte { return AppendInt32(b, r.Value) }

// DecodeFrom reads the record.
func (r *Int32Response) DecodeFrom(d *Decoder) { r.Value = d.Int32() }

// An Identity is one of those under which a connection has authenticated.
type Identity struct{ Scheme, ID string }

// A WhoAmIResponse answers OpWhoAmI.
type WhoAmIResponse struct{ Identities []Identity }

// AppendTo appends the record.
func (r *WhoAmIResponse) AppendTo(b []byte) []byte {
	b = AppendInt32(b, int32(len(r.Identities)))
	for _, id := range r.Identities {
		b = AppendString(AppendString(b, id.Scheme), id.ID)
	}
	return b
}

// DecodeFrom reads the record.
func (r *WhoAmIResponse) DecodeFrom(d *Decoder) {
	r.Identities = nil
	for range max(d.Count(8), 0) {
		r.Identities = append(r.Identities, Identity{d.String(), d.String()})
	}
}
