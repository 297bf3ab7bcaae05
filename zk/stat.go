package zk

// A Stat is what ZooKeeper knows of a znode besides its data.
type Stat struct {
	Czxid          int64 // zxid of the transaction that created the znode
	Mzxid          int64 // zxid of the last change of its data
	Ctime          int64 // when it was created, in milliseconds since 1970
	Mtime          int64 // when its data last changed, in milliseconds since 1970
	Version        int32 // number of changes of its data
	Cversion       int32 // number of changes of its list of children
	Aversion       int32 // number of changes of its ACL
	EphemeralOwner int64 // session that owns it; 0 if it is not ephemeral
	DataLength     int32 // bytes of data
	NumChildren    int32 // direct children
	Pzxid          int64 // zxid of the last change of its list of children
}

// AnyVersion in place of a version makes a conditional operation unconditional.
const AnyVersion int32 = -1
