package wire

import "github.com/lockkeeper/lockkeeper/zk"

// A CreateRequest belongs to OpCreate, OpCreate2 and OpCreateContainer.
type CreateRequest struct {
	Path string
	Data []byte
	ACL  []zk.ACL
	Mode zk.Mode
}

// AppendTo appends the record.
func (r *CreateRequest) AppendTo(b []byte) []byte {
	return AppendInt32(AppendACL(AppendBuffer(AppendString(b, r.Path), r.Data), r.ACL), int32(r.Mode))
}

// DecodeFrom reads the record.
func (r *CreateRequest) DecodeFrom(d *Decoder) {
	r.Path, r.Data, r.ACL, r.Mode = d.String(), d.Buffer(), d.ACL(), zk.Mode(d.Int32())
}

// A CreateTTLRequest belongs to OpCreateTTL.
type CreateTTLRequest struct {
	CreateRequest
	TTL int64 // milliseconds
}

// AppendTo appends the record.
func (r *CreateTTLRequest) AppendTo(b []byte) []byte {
	return AppendInt64(r.CreateRequest.AppendTo(b), r.TTL)
}

// DecodeFrom reads the record.
func (r *CreateTTLRequest) DecodeFrom(d *Decoder) {
	r.CreateRequest.DecodeFrom(d)
	r.TTL = d.Int64()
}

// A VersionRequest belongs to OpDelete and OpCheck.
type VersionRequest struct {
	Path    string
	Version int32 // that the znode must have; -1 for any
}

// AppendTo appends the record.
func (r *VersionRequest) AppendTo(b []byte) []byte {
	return AppendInt32(AppendString(b, r.Path), r.Version)
}

// DecodeFrom reads the record.
func (r *VersionRequest) DecodeFrom(d *Decoder) { r.Path, r.Version = d.String(), d.Int32() }

// A WatchRequest belongs to OpExists, OpGetData, OpGetChildren and OpGetChildren2.
type WatchRequest struct {
	Path  string
	Watch bool
}

// AppendTo appends the record.
func (r *WatchRequest) AppendTo(b []byte) []byte {
	return AppendBool(AppendString(b, r.Path), r.Watch)
}

// DecodeFrom reads the record.
func (r *WatchRequest) DecodeFrom(d *Decoder) { r.Path, r.Watch = d.String(), d.Bool() }

// A PathRecord is the whole of an OpGetACL, OpSync or OpAllChildrenCount request, of an OpSync
// answer and of an OpCreate answer.
type PathRecord struct{ Path string }

// AppendTo appends the record.
func (r *PathRecord) AppendTo(b []byte) []byte { return AppendString(b, r.Path) }

// DecodeFrom reads the record.
func (r *PathRecord) DecodeFrom(d *Decoder) { r.Path = d.String() }

// A PrefixRequest belongs to OpGetEphemerals; null asks for all, as "" and "/" do.
type PrefixRequest struct{ Prefix string }

// AppendTo appends the record.
func (r *PrefixRequest) AppendTo(b []byte) []byte { return AppendString(b, r.Prefix) }

// DecodeFrom reads the record.
func (r *PrefixRequest) DecodeFrom(d *Decoder) { r.Prefix, _ = d.NullString() }

// A SetDataRequest belongs to OpSetData.
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version int32 // that the data must have; -1 for any
}

// AppendTo appends the record.
func (r *SetDataRequest) AppendTo(b []byte) []byte {
	return AppendInt32(AppendBuffer(AppendString(b, r.Path), r.Data), r.Version)
}

// DecodeFrom reads the record.
func (r *SetDataRequest) DecodeFrom(d *Decoder) {
	r.Path, r.Data, r.Version = d.String(), d.Buffer(), d.Int32()
}

// A SetACLRequest belongs to OpSetACL.
type SetACLRequest struct {
	Path    string
	ACL     []zk.ACL
	Version int32 // that the ACL must have; -1 for any
}

// AppendTo appends the record.
func (r *SetACLRequest) AppendTo(b []byte) []byte {
	return AppendInt32(AppendACL(AppendString(b, r.Path), r.ACL), r.Version)
}

// DecodeFrom reads the record.
func (r *SetACLRequest) DecodeFrom(d *Decoder) {
	r.Path, r.ACL, r.Version = d.String(), d.ACL(), d.Int32()
}

// A WatchKindRequest belongs to OpCheckWatches and OpRemoveWatches.
type WatchKindRequest struct {
	Path string
	Kind zk.WatchKind
}

// AppendTo appends the record.
func (r *WatchKindRequest) AppendTo(b []byte) []byte {
	return AppendInt32(AppendString(b, r.Path), int32(r.Kind))
}

// DecodeFrom reads the record.
func (r *WatchKindRequest) DecodeFrom(d *Decoder) {
	r.Path, r.Kind = d.String(), zk.WatchKind(d.Int32())
}

// The modes of an AddWatchRequest.
const (
	AddWatchPersistent          int32 = 0
	AddWatchPersistentRecursive int32 = 1
)

// An AddWatchRequest belongs to OpAddWatch.
type AddWatchRequest struct {
	Path string
	Mode int32
}

// AppendTo appends the record.
func (r *AddWatchRequest) AppendTo(b []byte) []byte {
	return AppendInt32(AppendString(b, r.Path), r.Mode)
}

// DecodeFrom reads the record.
func (r *AddWatchRequest) DecodeFrom(d *Decoder) { r.Path, r.Mode = d.String(), d.Int32() }

// An AuthRequest belongs to OpAuth.
type AuthRequest struct {
	Type   int32 // 0
	Scheme string
	Auth   []byte
}

// AppendTo appends the record.
func (r *AuthRequest) AppendTo(b []byte) []byte {
	return AppendBuffer(AppendString(AppendInt32(b, r.Type), r.Scheme), r.Auth)
}

// DecodeFrom reads the record.
func (r *AuthRequest) DecodeFrom(d *Decoder) {
	r.Type, r.Scheme, r.Auth = d.Int32(), d.String(), d.Buffer()
}

// A SetWatchesRequest belongs to OpSetWatches2 and, without its last two lists, to OpSetWatches.
// It arms again, after a reconnect, what was armed before it; what changed after RelativeZxid
// is answered with an event instead.
type SetWatchesRequest struct {
	RelativeZxid int64
	Data         []string // the znode was there
	Exist        []string // the znode was not there
	Child        []string
	Persistent   []string
	Recursive    []string
}

// Op returns OpSetWatches if that older request can carry the lists, OpSetWatches2 otherwise.
func (r *SetWatchesRequest) Op() Op {
	if len(r.Persistent)+len(r.Recursive) == 0 {
		return OpSetWatches
	}
	return OpSetWatches2
}

// AppendTo appends the record in the form of Op.
func (r *SetWatchesRequest) AppendTo(b []byte) []byte {
	b = AppendInt64(b, r.RelativeZxid)
	b = AppendStrings(b, r.Data)
	b = AppendStrings(b, r.Exist)
	b = AppendStrings(b, r.Child)
	if r.Op() == OpSetWatches2 {
		b = AppendStrings(b, r.Persistent)
		b = AppendStrings(b, r.Recursive)
	}
	return b
}

// DecodeFrom reads the record in the form of OpSetWatches if nothing follows the third list, else
// in that of OpSetWatches2.
func (r *SetWatchesRequest) DecodeFrom(d *Decoder) {
	*r = SetWatchesRequest{RelativeZxid: d.Int64(), Data: d.list(), Exist: d.list(), Child: d.list()}
	if len(d.Rest()) > 0 {
		r.Persistent, r.Recursive = d.list(), d.list()
	}
}

// list reads a vector of strings that must not be null.
func (d *Decoder) list() []string {
	v := d.Strings()
	if v == nil {
		d.Fail(errNullList)
	}
	return v
}

// A ReconfigRequest belongs to OpReconfig. Each list may be null.
type ReconfigRequest struct {
	Joining, Leaving, NewMembers string
	ConfigID                     int64
}

// AppendTo appends the record.
func (r *ReconfigRequest) AppendTo(b []byte) []byte {
	b = AppendString(AppendString(AppendString(b, r.Joining), r.Leaving), r.NewMembers)
	return AppendInt64(b, r.ConfigID)
}

// DecodeFrom reads the record.
func (r *ReconfigRequest) DecodeFrom(d *Decoder) {
	r.Joining, _ = d.NullString()
	r.Leaving, _ = d.NullString()
	r.NewMembers, _ = d.NullString()
	r.ConfigID = d.Int64()
}

// A TokenRecord is an OpSASL request and its answer.
type TokenRecord struct{ Token []byte }

// AppendTo appends the record.
func (r *TokenRecord) AppendTo(b []byte) []byte { return AppendBuffer(b, r.Token) }

// DecodeFrom reads the record.
func (r *TokenRecord) DecodeFrom(d *Decoder) { r.Token = d.Buffer() }
